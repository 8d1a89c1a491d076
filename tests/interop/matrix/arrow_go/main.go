// Reads and writes files with arrow-go: a line of JSON in, a line of JSON out.
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

type request struct {
	Do, File, Leaf, Source, Output string
	Row                            int
}

// column is the values of a column chunk: as they are stored, their hashes, and how they are written again.
type column struct {
	plain  [][]byte
	hashes []uint64
	write  func(file.ColumnChunkWriter) error
}

type batches[T parquet.ColumnTypes] interface {
	ReadBatch(int64, []T, []int16, []int16) (int64, int, error)
}

type writes[T parquet.ColumnTypes] interface {
	WriteBatch([]T, []int16, []int16) (int64, error)
}

func read[T parquet.ColumnTypes](chunk batches[T], rows int64, plain func(T) []byte) (column, error) {
	var found column
	var all []T
	definitions := make([]int16, rows)
	for at := int64(0); at < rows; {
		values, repetitions := make([]T, rows), make([]int16, rows)
		levels, n, err := chunk.ReadBatch(rows-at, values, definitions[at:], repetitions)
		if err != nil {
			return found, err
		}
		if levels == 0 {
			break
		}
		at += levels
		for _, value := range values[:n] {
			all = append(all, value)
			found.plain = append(found.plain, bytes.Clone(plain(value)))
			found.hashes = append(found.hashes, metadata.GetHash(hasher, value))
		}
	}
	found.write = func(writer file.ColumnChunkWriter) error {
		_, err := writer.(writes[T]).WriteBatch(all, definitions, nil)
		return err
	}
	return found, nil
}

var hasher = metadata.NewBloomFilter(32, 32, memory.DefaultAllocator).Hasher()

func fixed[T any](value T) []byte {
	plain, _ := binary.Append(nil, binary.LittleEndian, value)
	return plain
}

func values(group *file.RowGroupReader, index int) (column, error) {
	chunk, err := group.Column(index)
	if err != nil {
		return column{}, err
	}
	rows := group.NumRows()
	switch chunk := chunk.(type) {
	case *file.BooleanColumnChunkReader:
		return read(chunk, rows, fixed[bool])
	case *file.Int32ColumnChunkReader:
		return read(chunk, rows, fixed[int32])
	case *file.Int64ColumnChunkReader:
		return read(chunk, rows, fixed[int64])
	case *file.Int96ColumnChunkReader:
		return read(chunk, rows, func(value parquet.Int96) []byte { return value[:] })
	case *file.Float32ColumnChunkReader:
		return read(chunk, rows, fixed[float32])
	case *file.Float64ColumnChunkReader:
		return read(chunk, rows, fixed[float64])
	case *file.ByteArrayColumnChunkReader:
		return read(chunk, rows, func(value parquet.ByteArray) []byte { return value })
	case *file.FixedLenByteArrayColumnChunkReader:
		return read(chunk, rows, func(value parquet.FixedLenByteArray) []byte { return value })
	}
	return column{}, fmt.Errorf("no type %T", chunk)
}

func find(asked request) (any, error) {
	source, err := file.OpenParquetFile(asked.Source, false)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	index := source.MetaData().Schema.ColumnIndexByName(asked.Leaf)
	var given column
	for i := range source.NumRowGroups() {
		some, err := values(source.RowGroup(i), index)
		if err != nil {
			return nil, err
		}
		given.plain, given.hashes = append(given.plain, some.plain...), append(given.hashes, some.hashes...)
	}
	plain, hash := given.plain[asked.Row], given.hashes[asked.Row]
	reader, err := file.OpenParquetFile(asked.File, false)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	rows, read, start := []int{}, 0, 0
	for i := range reader.NumRowGroups() {
		filters, err := reader.GetBloomFilterReader().RowGroup(i)
		if err != nil {
			return nil, err
		}
		filter, err := filters.GetColumnBloomFilter(index)
		if err != nil {
			return nil, err
		}
		if filter == nil || filter.CheckHash(hash) {
			read++
			some, err := values(reader.RowGroup(i), index)
			if err != nil {
				return nil, err
			}
			for k, value := range some.plain {
				if bytes.Equal(value, plain) {
					rows = append(rows, start+k)
				}
			}
		}
		start += int(reader.RowGroup(i).NumRows())
	}
	return map[string]any{"rows": rows, "read": read}, nil
}

func write(asked request) (any, error) {
	source, err := file.OpenParquetFile(asked.File, false)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	index := source.MetaData().Schema.ColumnIndexByName("v")
	root := source.MetaData().Schema.Root()
	fields := schema.FieldList{root.Field(root.FieldIndexByName("v"))}
	group, err := schema.NewGroupNode("schema", parquet.Repetitions.Required, fields, -1)
	if err != nil {
		return nil, err
	}
	output, err := os.Create(asked.Output)
	if err != nil {
		return nil, err
	}
	properties := parquet.NewWriterProperties(
		parquet.WithDictionaryDefault(false),
		parquet.WithBloomFilterEnabledFor("v", true),
		parquet.WithBloomFilterNDVFor("v", 100),
		parquet.WithBloomFilterFPPFor("v", 0.01),
	)
	writer := file.NewParquetWriter(output, group, file.WithWriterProps(properties))
	for i := range source.NumRowGroups() {
		some, err := values(source.RowGroup(i), index)
		if err != nil {
			return nil, err
		}
		group := writer.AppendRowGroup()
		chunk, err := group.NextColumn()
		if err != nil {
			return nil, err
		}
		if err := some.write(chunk); err != nil {
			return nil, err
		}
		if err := chunk.Close(); err != nil {
			return nil, err
		}
		if err := group.Close(); err != nil {
			return nil, err
		}
	}
	return map[string]any{}, writer.Close()
}

func answer(line string) (result any, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v", reason)
		}
	}()
	var asked request
	if err := json.Unmarshal([]byte(line), &asked); err != nil {
		return nil, err
	}
	if asked.Do == "find" {
		return find(asked)
	}
	return write(asked)
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		result, err := answer(lines.Text())
		if err != nil {
			result = map[string]any{"error": err.Error()}
		}
		said, _ := json.Marshal(result)
		fmt.Println(string(said))
	}
}
