"""One module for each verb, and what they share."""
