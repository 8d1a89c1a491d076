"""The format's bytes: generated structs, decoding, and the lossless footer splice. Never does I/O."""
