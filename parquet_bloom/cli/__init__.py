"""The command line: arguments, one library call, an output."""
