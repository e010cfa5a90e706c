"""The classic group protocol: members meet, one of them assigns, and all go on in the same generation."""
