"""The paper's figures, drawn with Matplotlib for print: one module each."""
