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

/** A field of a map is its key, an element of a list is found by $in. */
function condition(leaf, values) {
  const path = leaf.replace(/\.(list|key_value)\..*/, '')
  if (leaf.includes('.key_value.key')) return { $or: values.map(key => ({ [`${path}.${key}`]: { $eq: 'k' } })) }
  const name = leaf.includes('.key_value.') ? `${path}.k` : path
  return { [name]: values.length > 1 || leaf.includes('.list.') ? { $in: values } : { $eq: values[0] } }
}

async function valueOf({ file, row }, leaf) {
  const [column, ...fields] = leaf.split('.')
  const value = (await parquetReadObjects({ file: await counted(file), columns: [column] }))[row][column]
  if (leaf.includes('.key_value.key')) return Object.keys(value)[0]
  if (leaf.includes('.list.') || leaf.includes('.key_value.')) return Object.values(value)[0]
  return fields.reduce((value, field) => value[field], value)
}

async function find({ file: path, leaf, values }) {
  const filter = condition(leaf, await Promise.all(values.map(place => valueOf(place, leaf))))
  const file = await counted(path)
  const metadata = await parquetMetadataAsync(file)
  file.bytes = 0
  const found = await parquetReadObjects({ file, metadata, columns: ['k'], filter, useBloomFilters: true })
  return { rows: found.map(({ k }) => Number(k)), read: file.bytes }
}

for await (const line of createInterface({ input: process.stdin })) {
  const answer = await find(JSON.parse(line)).catch(error => ({ error: error.message }))
  console.log(JSON.stringify(answer))
}
