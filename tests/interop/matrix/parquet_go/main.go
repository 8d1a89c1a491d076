// Reads and writes files with parquet-go: a line of JSON in, a line of JSON out.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/parquet-go/parquet-go"
)

type request struct {
	Do, File, Leaf, Source, Output string
	Row                            int
}

func open(path string) (*parquet.File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
}

func columnOf(file *parquet.File, leaf string) (int, error) {
	found, ok := file.Schema().Lookup(strings.Split(leaf, ".")...)
	if !ok {
		return 0, fmt.Errorf("no column %s", leaf)
	}
	return found.ColumnIndex, nil
}

func values(chunk parquet.ColumnChunk) ([]parquet.Value, error) {
	var all []parquet.Value
	pages := chunk.Pages()
	defer pages.Close()
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		some := make([]parquet.Value, page.NumValues())
		n, err := page.Values().ReadValues(some)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		for _, value := range some[:n] {
			all = append(all, value.Clone())
		}
	}
}

func find(asked request) (any, error) {
	source, err := open(asked.Source)
	if err != nil {
		return nil, err
	}
	column, err := columnOf(source, asked.Leaf)
	if err != nil {
		return nil, err
	}
	var given []parquet.Value
	for _, group := range source.RowGroups() {
		some, err := values(group.ColumnChunks()[column])
		if err != nil {
			return nil, err
		}
		given = append(given, some...)
	}
	value := given[asked.Row]
	file, err := open(asked.File)
	if err != nil {
		return nil, err
	}
	rows, read, start := []int{}, 0, 0
	for _, group := range file.RowGroups() {
		chunk := group.ColumnChunks()[column]
		left := true
		if filter := chunk.BloomFilter(); filter != nil {
			if left, err = filter.Check(value); err != nil {
				return nil, err
			}
		}
		if left {
			read++
			some, err := values(chunk)
			if err != nil {
				return nil, err
			}
			for i, found := range some {
				if bytes.Equal(found.Bytes(), value.Bytes()) {
					rows = append(rows, start+i)
				}
			}
		}
		start += int(group.NumRows())
	}
	return map[string]any{"rows": rows, "read": read}, nil
}

func write(asked request) (any, error) {
	source, err := open(asked.File)
	if err != nil {
		return nil, err
	}
	output, err := os.Create(asked.Output)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	column, err := columnOf(source, "v")
	if err != nil {
		return nil, err
	}
	var leaf parquet.Node
	for _, field := range source.Root().Columns() {
		if field.Name() == "v" {
			leaf = parquet.Optional(parquet.Leaf(field.Type()))
		}
	}
	schema := parquet.NewSchema("schema", parquet.Group{"v": leaf})
	writer := parquet.NewWriter(output, schema, parquet.BloomFilters(parquet.SplitBlockFilter(10, "v")))
	for _, group := range source.RowGroups() {
		some, err := values(group.ColumnChunks()[column])
		if err != nil {
			return nil, err
		}
		for _, value := range some {
			if _, err := writer.WriteRows([]parquet.Row{{value.Level(0, 1, 0)}}); err != nil {
				return nil, err
			}
		}
		if err := writer.Flush(); err != nil {
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
