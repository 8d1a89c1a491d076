"""What a value is as bytes, how it compares, and how it is written as text."""
