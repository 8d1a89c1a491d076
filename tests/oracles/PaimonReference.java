import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.math.BigDecimal;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import org.apache.paimon.CoreOptions;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.fileindex.FileIndexFormat;
import org.apache.paimon.fileindex.FileIndexOptions;
import org.apache.paimon.fileindex.FileIndexWriter;
import org.apache.paimon.fileindex.bloomfilter.BloomFilterFileIndex;
import org.apache.paimon.fileindex.bloomfilter.FastHash;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.ByteArraySeekableStream;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.io.DataFileIndexWriter;
import org.apache.paimon.options.ConfigOption;
import org.apache.paimon.options.ExpireConfig;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.FieldRef;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaManager;
import org.apache.paimon.schema.TableSchema;
import org.apache.paimon.table.CatalogEnvironment;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.BloomFilter64;

/** Answers, a line for each line of its input, what Paimon's own classes make of it. Fields are parted by tabs. */
public final class PaimonReference {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answer(line.split("\t", -1)));
        }
        out.flush();
    }

    private static String answer(String[] asked) throws Exception {
        switch (asked[0]) {
            case "hash": { // type, value
                DataType type = DataTypeJsonParser.parseAtomicTypeSQLString(asked[1]);
                return Long.toUnsignedString(FastHash.getHashFunction(type).hash(value(asked[1], asked[2])));
            }
            case "size": { // items, fpp
                BloomFilter64 made = new BloomFilter64(Long.parseLong(asked[1]), Double.parseDouble(asked[2]));
                return made.getNumHashFunctions() + " " + made.getBitSet().bitSize();
            }
            case "build": { // type, items, fpp, values; "null" is one
                FileIndexWriter writer = index(asked).createWriter();
                for (int i = 4; i < asked.length; i++) {
                    writer.writeRecord(asked[i].equals("null") ? null : value(asked[1], asked[i]));
                }
                return HEX.formatHex(writer.serializedBytes());
            }
            case "probe": { // type, "10", "0.1", payload, values
                byte[] payload = HEX.parseHex(asked[4]);
                FieldRef field = new FieldRef(0, "x", DataTypeJsonParser.parseAtomicTypeSQLString(asked[1]));
                var reader = index(asked).createReader(new ByteArraySeekableStream(payload), 0, payload.length);
                StringBuilder found = new StringBuilder();
                for (int i = 5; i < asked.length; i++) {
                    found.append(reader.visitEqual(field, value(asked[1], asked[i])).remain() ? 1 : 0);
                }
                return found.toString();
            }
            case "write": { // column, type of index, payload each; names in hexadecimal UTF-16
                Map<String, Map<String, byte[]>> indexes = new LinkedHashMap<>();
                for (int i = 1; i + 2 < asked.length; i += 3) {
                    indexes.computeIfAbsent(name(asked[i]), k -> new LinkedHashMap<>())
                            .put(name(asked[i + 1]), asked[i + 2].equals("null") ? null : HEX.parseHex(asked[i + 2]));
                }
                return written(indexes);
            }
            case "table": { // columns of INT, which hold their places
                Map<String, String> options = new HashMap<>();
                String[] names = Arrays.copyOfRange(asked, 1, asked.length);
                options.put("file-index.bloom-filter.columns", String.join(",", names));
                GenericRow row = new GenericRow(names.length);
                for (int i = 0; i < names.length; i++) {
                    options.put("file-index.bloom-filter." + names[i] + ".items", "9");
                    row.setField(i, i);
                }
                DataType[] types = new DataType[names.length];
                Arrays.fill(types, DataTypes.INT());
                FileIndexOptions parsed = new FileIndexOptions(new CoreOptions(options));
                DataFileIndexWriter writer = DataFileIndexWriter.create(null, null, RowType.of(types, names), parsed);
                writer.write(row);
                return written(writer.serializeMaintainers());
            }
            case "read": { // container
                ByteArraySeekableStream stream = new ByteArraySeekableStream(HEX.parseHex(asked[1]));
                StringBuilder found = new StringBuilder();
                try (FileIndexFormat.Reader reader = FileIndexFormat.createReader(stream, RowType.of())) {
                    for (var column : new TreeMap<>(reader.readAll()).entrySet()) {
                        for (var index : new TreeMap<>(column.getValue()).entrySet()) {
                            found.append(HEX.formatHex(column.getKey().getBytes("UTF-16BE"))).append(' ');
                            found.append(HEX.formatHex(index.getKey().getBytes("UTF-16BE"))).append(' ');
                            found.append(HEX.formatHex(index.getValue())).append('\t');
                        }
                    }
                }
                return found.toString();
            }
            case "make": { // directory: a table of two files, even and odd numbers
                LocalFileIO io = LocalFileIO.create();
                Path path = new Path(asked[1]);
                Schema schema = Schema.newBuilder()
                        .column("id", DataTypes.BIGINT())
                        .column("name", DataTypes.STRING())
                        .option("bucket", "-1")
                        .option("file.format", "parquet")
                        .build();
                new SchemaManager(io, path).createTable(schema);
                FileStoreTable table = FileStoreTableFactory.create(io, path);
                for (int part = 0; part < 2; part++) {
                    BatchWriteBuilder builder = table.newBatchWriteBuilder();
                    try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
                        for (long i = part; i < 100; i += 2) {
                            write.write(GenericRow.of(i, BinaryString.fromString("name " + i)));
                        }
                        commit.commit(write.prepareCommit());
                    }
                }
                return "made";
            }
            case "partition": { // directory, type, partition.legacy-name, values: a table with a row for each
                Schema.Builder schema = Schema.newBuilder().partitionKeys("value");
                return made(asked, schema.option("partition.legacy-name", asked[3]));
            }
            case "column": { // directory, type, metadata.stats-mode, values: a table with a row for each, and no indexes
                return made(asked, Schema.newBuilder().option("metadata.stats-mode", asked[3]));
            }
            case "branches": { // directory: 0 to 9 in a tag, 10 to 19 after it, 20 to 29 in a branch; one without rows
                LocalFileIO io = LocalFileIO.create();
                Path path = new Path(asked[1]);
                Schema schema = Schema.newBuilder()
                        .column("id", DataTypes.BIGINT())
                        .option("bucket", "-1")
                        .option("file.format", "parquet")
                        .option("file-index.bloom-filter.columns", "id")
                        .option("file-index.bloom-filter.id.items", "20")
                        .option("file-index.in-manifest-threshold", "1 b")
                        .build();
                new SchemaManager(io, path).createTable(schema);
                FileStoreTable table = FileStoreTableFactory.create(io, path);
                write(table, 0);
                table.createTag("before", 1);
                table.createBranch("audit", "before");
                table.createBranch("bare");
                write(table, 10);
                write(table.switchToBranch("audit"), 20);
                return "made";
            }
            case "beside": { // directory: keys, some written again; deletion vectors beside the data files
                LocalFileIO io = LocalFileIO.create();
                Path path = new Path(asked[1]);
                Schema schema = Schema.newBuilder()
                        .column("id", DataTypes.BIGINT())
                        .column("p", DataTypes.STRING())
                        .column("fine", DataTypes.TIMESTAMP(9))
                        .column("zoned", DataTypes.TIMESTAMP_WITH_LOCAL_TIME_ZONE(7))
                        .partitionKeys("p")
                        .primaryKey("p", "id")
                        .option("bucket", "1")
                        .option("file.format", "parquet")
                        .option("deletion-vectors.enabled", "true")
                        .option("index-file-in-data-file-dir", "true")
                        .build();
                new SchemaManager(io, path).createTable(schema);
                FileStoreTable table = FileStoreTableFactory.create(io, path);
                for (long step = 1; step <= 3; step += 2) {
                    BatchWriteBuilder builder = table.newBatchWriteBuilder();
                    try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
                        write.withIOManager(IOManager.create(asked[1] + "-scratch"));
                        for (long i = 0; i < 20; i += step) {
                            Timestamp at = Timestamp.fromEpochMillis((i - 10) * 86_400_007L, (int) (i * 1_000 + step));
                            write.write(GenericRow.of(i, BinaryString.fromString("p0"), i % 7 == 6 ? null : at, at));
                        }
                        commit.commit(write.prepareCommit());
                    }
                }
                StringBuilder found = new StringBuilder();
                ReadBuilder reading = table.newReadBuilder();
                reading.newRead().createReader(reading.newScan().plan()).forEachRemaining(row -> found
                        .append(row.getLong(0)).append(' ').append(row.getString(1))
                        .append(' ').append(row.isNullAt(2) ? null : row.getTimestamp(2, 9))
                        .append(' ').append(row.getTimestamp(3, 7)).append('\t'));
                return found.toString().strip();
            }
            case "options": { // all options of tables, each with its default
                StringBuilder found = new StringBuilder();
                for (Field field : CoreOptions.class.getDeclaredFields()) {
                    if (ConfigOption.class.isAssignableFrom(field.getType())) {
                        ConfigOption<?> option = (ConfigOption<?>) field.get(null);
                        found.append(option.key()).append('=').append(option.defaultValue()).append('\t');
                    }
                }
                return found.toString().strip();
            }
            case "state": { // directory, option, value: the numbers that are read if the table has the option; or "error"
                LocalFileIO io = LocalFileIO.create();
                Path path = new Path(asked[1]);
                try {
                    TableSchema schema = new SchemaManager(io, path).latest().get();
                    Map<String, String> options = new HashMap<>(schema.options());
                    options.put(asked[2], asked[3]);
                    FileStoreTable table =
                            FileStoreTableFactory.create(io, path, schema.copy(options), CatalogEnvironment.empty());
                    TreeMap<Long, Integer> found = new TreeMap<>();
                    ReadBuilder builder = table.newReadBuilder();
                    builder.newRead().createReader(builder.newScan().plan())
                            .forEachRemaining(row -> found.merge(row.getLong(0), 1, Integer::sum));
                    return found.toString();
                } catch (Exception | Error refused) {
                    return "error";
                }
            }
            case "indexed": { // directory, then a column's type and its values, joined by commas: a table with indexes
                return indexed(asked);
            }
            case "find": { // directory, number
                FileStoreTable table = FileStoreTableFactory.create(LocalFileIO.create(), new Path(asked[1]));
                Predicate equal = new PredicateBuilder(table.rowType()).equal(0, Long.parseLong(asked[2]));
                ReadBuilder builder = table.newReadBuilder().withFilter(equal);
                StringBuilder found = new StringBuilder();
                builder.newRead().createReader(builder.newScan().plan().splits()).forEachRemaining(row -> {
                    if (row.getLong(0) == Long.parseLong(asked[2])) {
                        found.append(row.getLong(0));
                    }
                });
                return found.toString();
            }
            case "count": { // directory, type of its column 1, values: how many rows have each
                FileStoreTable table = FileStoreTableFactory.create(LocalFileIO.create(), new Path(asked[1]));
                StringBuilder found = new StringBuilder();
                for (int i = 3; i < asked.length; i++) {
                    Object value = value(asked[2], asked[i]);
                    Predicate equal = new PredicateBuilder(table.rowType()).equal(1, value);
                    ReadBuilder builder = table.newReadBuilder().withFilter(equal);
                    InternalRow.FieldGetter getter = InternalRow.createFieldGetter(table.rowType().getTypeAt(1), 1);
                    long[] rows = {0};
                    builder.newRead().createReader(builder.newScan().plan().splits()).forEachRemaining(row -> {
                        rows[0] += Objects.deepEquals(value, getter.getFieldOrNull(row)) ? 1 : 0;
                    });
                    found.append(' ').append(rows[0]);
                }
                return found.toString().trim();
            }
            case "expire": { // directory: all snapshots but the newest
                FileStoreTable table = FileStoreTableFactory.create(LocalFileIO.create(), new Path(asked[1]));
                ExpireConfig one = ExpireConfig.builder()
                        .snapshotRetainMin(1)
                        .snapshotRetainMax(1)
                        .snapshotTimeRetain(Duration.ZERO)
                        .build();
                return "" + table.newExpireSnapshots().config(one).expire();
            }
            default:
                throw new IllegalArgumentException(asked[0]);
        }
    }

    private static String made(String[] asked, Schema.Builder schema) throws Exception {
        LocalFileIO io = LocalFileIO.create();
        Path path = new Path(asked[1]);
        schema.column("id", DataTypes.BIGINT())
                .column("value", DataTypeJsonParser.parseAtomicTypeSQLString(asked[2]))
                .option("bucket", "-1")
                .option("file.format", "parquet");
        new SchemaManager(io, path).createTable(schema.build());
        BatchWriteBuilder builder = FileStoreTableFactory.create(io, path).newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
            for (int i = 4; i < asked.length; i++) {
                write.write(GenericRow.of((long) i, asked[i].equals("null") ? null : value(asked[2], asked[i])));
            }
            commit.commit(write.prepareCommit());
        }
        return "made";
    }

    private static void write(FileStoreTable table, long first) throws Exception {
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
            for (long id = first; id < first + 10; id++) {
                write.write(GenericRow.of(id));
            }
            commit.commit(write.prepareCommit());
        }
    }

    private static String indexed(String[] asked) throws Exception {
        LocalFileIO io = LocalFileIO.create();
        Path path = new Path(asked[1]);
        int width = (asked.length - 2) / 2;
        Schema.Builder schema = Schema.newBuilder();
        String[] names = new String[width];
        String[][] values = new String[width][];
        for (int i = 0; i < width; i++) {
            names[i] = "c" + i;
            values[i] = asked[3 + 2 * i].split(",", -1);
            schema.column(names[i], DataTypeJsonParser.parseAtomicTypeSQLString(asked[2 + 2 * i]));
            schema.option("file-index.bloom-filter." + names[i] + ".items", "50");
            schema.option("file-index.bloom-filter." + names[i] + ".fpp", "0.001");
        }
        schema.option("file-index.bloom-filter.columns", String.join(",", names))
                .option("file-index.in-manifest-threshold", "1 b")
                .option("bucket", "-1")
                .option("file.format", "parquet");
        new SchemaManager(io, path).createTable(schema.build());
        int rows = Arrays.stream(values).mapToInt(each -> each.length).max().orElse(0);
        BatchWriteBuilder builder = FileStoreTableFactory.create(io, path).newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
            for (int row = 0; row < rows; row++) {
                GenericRow made = new GenericRow(width);
                for (int i = 0; i < width; i++) {
                    boolean isNull = row >= values[i].length || values[i][row].equals("null");
                    made.setField(i, isNull ? null : value(asked[2 + 2 * i], values[i][row]));
                }
                write.write(made);
            }
            commit.commit(write.prepareCommit());
        }
        return "made";
    }

    private static String written(Map<String, Map<String, byte[]>> indexes) throws Exception {
        ByteArrayOutputStream written = new ByteArrayOutputStream();
        try (FileIndexFormat.Writer writer = FileIndexFormat.createWriter(written)) {
            writer.writeColumnIndexes(indexes);
        }
        return HEX.formatHex(written.toByteArray());
    }

    private static BloomFilterFileIndex index(String[] asked) {
        Options options = new Options();
        options.set("items", asked[2]);
        options.set("fpp", asked[3]);
        return new BloomFilterFileIndex(DataTypeJsonParser.parseAtomicTypeSQLString(asked[1]), options);
    }

    private static String name(String hex) throws Exception {
        StringBuilder name = new StringBuilder();
        for (int i = 0; i < hex.length(); i += 4) {
            name.append((char) Integer.parseInt(hex.substring(i, i + 4), 16));
        }
        return name.toString();
    }

    /** A value as Paimon has it inside: texts and bytes in hexadecimal, floats by their bits, times by their ticks. */
    private static Object value(String type, String text) {
        switch (type.replaceAll("[( ].*", "")) {
            case "TINYINT":
                return Byte.valueOf(text);
            case "SMALLINT":
                return Short.valueOf(text);
            case "INT":
            case "DATE":
            case "TIME":
                return Integer.valueOf(text);
            case "BIGINT":
                return Long.valueOf(text);
            case "BOOLEAN":
                return Boolean.valueOf(text);
            case "DECIMAL":
                BigDecimal decimal = new BigDecimal(text);
                return Decimal.fromBigDecimal(decimal, decimal.precision(), decimal.scale());
            case "FLOAT":
                return Float.intBitsToFloat(Integer.parseUnsignedInt(text, 16));
            case "DOUBLE":
                return Double.longBitsToDouble(Long.parseUnsignedLong(text, 16));
            case "TIMESTAMP":
                if (text.contains(":")) { // milliseconds and nanoseconds of one
                    String[] parts = text.split(":");
                    return Timestamp.fromEpochMillis(Long.parseLong(parts[0]), Integer.parseInt(parts[1]));
                }
                long nanos = Long.parseLong(text);
                return Timestamp.fromEpochMillis(Math.floorDiv(nanos, 1000000L), (int) Math.floorMod(nanos, 1000000L));
            case "CHAR":
            case "VARCHAR":
            case "STRING":
                return BinaryString.fromBytes(HEX.parseHex(text));
            default:
                return HEX.parseHex(text);
        }
    }
}
