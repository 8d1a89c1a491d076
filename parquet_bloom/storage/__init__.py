"""The one door to fsspec and to decoded pages: listing, reading by plans, replacing files."""
