"""Tables, figures and the HTML report, drawn from stored runs."""
