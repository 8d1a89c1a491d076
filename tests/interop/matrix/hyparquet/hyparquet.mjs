// Reads files with hyparquet: a line of JSON in, a line of JSON out.

import { createInterface } from 'node:readline'
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } from 'hyparquet'

/** A file that counts the bytes that are read of it. */
async function counted(path) {
  const buffer = await asyncBufferFromFile(path)
  const file = {
    bytes: 0,
    byteLength: buffer.byteLength,
    slice(start, end = buffer.byteLength) {
      file.bytes += (end < 0 ? buffer.byteLength + end : end) - (start < 0 ? buffer.byteLength + start : start)
      return buffer.slice(start, end)
    },
  }
  return file
}

async function find({ file: path, leaf, source, row }) {
  const [column, ...fields] = leaf.replace(/\.list\.element$/, '').split('.')
  if (leaf.includes('.key_value.') || leaf.includes('.list.')) return { 'not asked': 'a filter names a column or a field of a struct' }
  const given = await parquetReadObjects({ file: await counted(source), columns: [column] })
  const value = fields.reduce((value, field) => value[field], given[row][column])
  const file = await counted(path)
  const metadata = await parquetMetadataAsync(file)
  file.bytes = 0
  const filter = { [[column, ...fields].join('.')]: { $eq: value } }
  const found = await parquetReadObjects({ file, metadata, columns: ['k'], filter, useBloomFilters: true })
  return { rows: found.map(({ k }) => Number(k)), read: file.bytes }
}

for await (const line of createInterface({ input: process.stdin })) {
  const answer = await find(JSON.parse(line)).catch(error => ({ error: error.message }))
  console.log(JSON.stringify(answer))
}
