"""Everything that can be asked whether a value is there: Parquet's filters, Hudi's, Paimon's and our index."""
