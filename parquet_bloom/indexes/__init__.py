"""Filters that are kept outside the column chunks that they speak of."""
