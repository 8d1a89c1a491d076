"""SQL, `col()` or a list of filters becomes a predicate, is bound to a schema, and evaluated."""
