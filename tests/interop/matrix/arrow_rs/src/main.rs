//! Reads and writes files with arrow-rs's crate `parquet`: a line of JSON in, a line of JSON out.

use parquet::column::{reader::ColumnReader, writer::ColumnWriter};
use parquet::data_type::AsBytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::{ReaderProperties, WriterProperties};
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::{ReadOptionsBuilder, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};
use std::{fs::File, io::BufRead, sync::Arc};

/// The plain bytes of every value of a column, by row.
fn values(group: &dyn RowGroupReader, column: usize) -> Result<Vec<Vec<u8>>> {
    let rows = group.metadata().num_rows() as usize;
    let mut plain = Vec::new();
    macro_rules! read {
        ($reader:expr) => {{
            let (mut values, mut definitions, mut repetitions) =
                (Vec::new(), Vec::new(), Vec::new());
            $reader.read_records(
                rows,
                Some(&mut definitions),
                Some(&mut repetitions),
                &mut values,
            )?;
            plain.extend(values.iter().map(|value| value.as_bytes().to_vec()));
        }};
    }
    match group.get_column_reader(column)? {
        ColumnReader::BoolColumnReader(mut reader) => read!(reader),
        ColumnReader::Int32ColumnReader(mut reader) => read!(reader),
        ColumnReader::Int64ColumnReader(mut reader) => read!(reader),
        ColumnReader::Int96ColumnReader(mut reader) => read!(reader),
        ColumnReader::FloatColumnReader(mut reader) => read!(reader),
        ColumnReader::DoubleColumnReader(mut reader) => read!(reader),
        ColumnReader::ByteArrayColumnReader(mut reader) => read!(reader),
        ColumnReader::FixedLenByteArrayColumnReader(mut reader) => read!(reader),
    }
    Ok(plain)
}

fn column_of(reader: &SerializedFileReader<File>, leaf: &str) -> usize {
    let columns = reader.metadata().file_metadata().schema_descr().columns();
    columns
        .iter()
        .position(|column| column.path().string() == leaf)
        .expect("the column")
}

fn find(file: &str, leaf: &str, source: &str, row: usize) -> Result<(Vec<usize>, usize)> {
    let given = SerializedFileReader::new(File::open(source)?)?;
    let mut asked = Vec::new();
    for i in 0..given.num_row_groups() {
        asked.extend(values(
            given.get_row_group(i)?.as_ref(),
            column_of(&given, leaf),
        )?);
    }
    let asked = &asked[row];
    let with_filters = ReaderProperties::builder()
        .set_read_bloom_filter(true)
        .build();
    let options = ReadOptionsBuilder::new()
        .with_reader_properties(with_filters)
        .build();
    let reader = SerializedFileReader::new_with_options(File::open(file)?, options)?;
    let column = column_of(&reader, leaf);
    let (mut rows, mut start, mut read) = (Vec::new(), 0, 0);
    for i in 0..reader.num_row_groups() {
        let group = reader.get_row_group(i)?;
        let excluded = group
            .get_column_bloom_filter(column)
            .is_some_and(|filter| !filter.check(asked.as_slice()));
        if !excluded {
            read += 1;
            let found = values(group.as_ref(), column)?;
            rows.extend(
                found
                    .iter()
                    .enumerate()
                    .filter(|(_, value)| *value == asked)
                    .map(|(k, _)| start + k),
            );
        }
        start += group.metadata().num_rows() as usize;
    }
    Ok((rows, read))
}

fn write(file: &str, output: &str) -> Result<()> {
    let reader = SerializedFileReader::new(File::open(file)?)?;
    let column = column_of(&reader, "v");
    let fields = reader.metadata().file_metadata().schema().get_fields();
    let field = fields
        .iter()
        .find(|field| field.name() == "v")
        .expect("the column")
        .clone();
    let schema = Type::group_type_builder("schema")
        .with_fields(vec![field])
        .build()?;
    let path = ColumnPath::from("v");
    let properties = WriterProperties::builder()
        .set_column_bloom_filter_enabled(path.clone(), true)
        .set_column_bloom_filter_max_ndv(path.clone(), 100)
        .set_column_bloom_filter_fpp(path, 0.01)
        .set_dictionary_enabled(false)
        .build();
    let mut writer = SerializedFileWriter::new(
        File::create(output)?,
        Arc::new(schema),
        Arc::new(properties),
    )?;
    for i in 0..reader.num_row_groups() {
        let group = reader.get_row_group(i)?;
        let rows = group.metadata().num_rows() as usize;
        let mut row_group = writer.next_row_group()?;
        let mut output = row_group.next_column()?.expect("a column");
        macro_rules! copy {
            ($reader:expr, $writer:expr) => {{
                let (mut values, mut definitions) = (Vec::new(), Vec::new());
                $reader.read_records(rows, Some(&mut definitions), None, &mut values)?;
                $writer.write_batch(&values, Some(&definitions), None)?;
            }};
        }
        match (group.get_column_reader(column)?, output.untyped()) {
            (ColumnReader::BoolColumnReader(mut r), ColumnWriter::BoolColumnWriter(w)) => {
                copy!(r, w)
            }
            (ColumnReader::Int32ColumnReader(mut r), ColumnWriter::Int32ColumnWriter(w)) => {
                copy!(r, w)
            }
            (ColumnReader::Int64ColumnReader(mut r), ColumnWriter::Int64ColumnWriter(w)) => {
                copy!(r, w)
            }
            (ColumnReader::Int96ColumnReader(mut r), ColumnWriter::Int96ColumnWriter(w)) => {
                copy!(r, w)
            }
            (ColumnReader::FloatColumnReader(mut r), ColumnWriter::FloatColumnWriter(w)) => {
                copy!(r, w)
            }
            (ColumnReader::DoubleColumnReader(mut r), ColumnWriter::DoubleColumnWriter(w)) => {
                copy!(r, w)
            }
            (
                ColumnReader::ByteArrayColumnReader(mut r),
                ColumnWriter::ByteArrayColumnWriter(w),
            ) => copy!(r, w),
            (
                ColumnReader::FixedLenByteArrayColumnReader(mut r),
                ColumnWriter::FixedLenByteArrayColumnWriter(w),
            ) => {
                copy!(r, w)
            }
            _ => return Err(ParquetError::General("the types differ".to_string())),
        }
        output.close()?;
        row_group.close()?;
    }
    writer.close()?;
    Ok(())
}

fn main() {
    for line in std::io::stdin().lock().lines() {
        let request: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        let text = |name: &str| request[name].as_str().unwrap_or_default().to_string();
        let answer = if text("do") == "find" {
            let row = request["row"].as_u64().unwrap_or_default() as usize;
            find(&text("file"), &text("leaf"), &text("source"), row)
                .map(|(rows, read)| serde_json::json!({"rows": rows, "read": read}))
        } else {
            write(&text("file"), &text("output")).map(|()| serde_json::json!({}))
        };
        println!(
            "{}",
            answer.unwrap_or_else(|error| serde_json::json!({"error": error.to_string()}))
        );
    }
}
