"""How a client's profile meets the server's baseline: in the clear, on the client, or encrypted."""
