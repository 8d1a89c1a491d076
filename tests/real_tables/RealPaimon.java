import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.options.Options;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.types.RowType;

/**
 * Makes tables of Paimon's newest kinds, and reads them. A line of input is `make KIND` or `read KIND AT`, where AT is
 * `-`, a snapshot, a tag or `branch:NAME`; a line of output is JSON: the columns' names and types, and the rows.
 */
public final class RealPaimon {
    private static final long RID = 1L << 40;
    private static final Random RANDOM = new Random(7);
    private static Catalog catalog;
    private static String scratch;
    private static long number = RID;
    private static String only;

    public static void main(String[] args) throws Exception {
        Options settings = new Options();
        settings.set("warehouse", args[0]);
        settings.set("cache-enabled", "false");
        catalog = CatalogFactory.createCatalog(CatalogContext.create(settings));
        scratch = args[1];
        catalog.createDatabase("n", true);
        PrintStream out = System.out;
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] asked = line.split(" ");
            try {
                if (asked[0].equals("make")) {
                    make(asked[1]);
                    out.println("{}");
                } else {
                    out.println(read(asked[1], asked[2]));
                }
            } catch (Throwable problem) {
                problem.printStackTrace();
                out.println("{\"error\": \"" + String.valueOf(problem).replaceAll("[\"\\\\\\s]", " ") + "\"}");
            }
            out.flush();
        }
    }

    private static void make(String kind) throws Exception {
        switch (kind) {
            case "append" -> append(kind, Map.of(), true);
            case "row_tracking" -> append(kind, Map.of("row-tracking.enabled", "true"), false);
            case "data_evolution" -> dataEvolution(kind);
            case "pk" -> keyed(kind, Map.of());
            case "pk_vectors" -> keyed(kind, Map.of("deletion-vectors.enabled", "true"));
            case "pk_long_vectors" ->
                keyed(kind, Map.of("deletion-vectors.enabled", "true", "deletion-vectors.bitmap64", "true"));
            case "pk_thin" -> keyed(kind, Map.of("data-file.thin-mode", "true"));
            case "pk_thin_vectors" ->
                keyed(kind, Map.of("data-file.thin-mode", "true", "deletion-vectors.enabled", "true"));
            case "pk_first_row" -> keyed(kind, Map.of("merge-engine", "first-row"));
            case "pk_partial" -> keyed(kind, Map.of("merge-engine", "partial-update"));
            case "pk_sequence" -> keyed(kind, Map.of("sequence.field", "n"));
            case "branches" -> branches(kind);
            case "pk_vectors_beside" ->
                keyed(kind, Map.of("deletion-vectors.enabled", "true", "index-file-in-data-file-dir", "true"));
            case "state_branch" -> state(kind, "branch", "other");
            case "state_primary_branch" -> state(kind, "scan.primary-branch", "other");
            case "state_snapshot" -> state(kind, "scan.snapshot-id", "1");
            case "state_tag" -> state(kind, "scan.tag-name", "old");
            case "state_time" -> state(kind, "scan.timestamp-millis", null);
            case "state_changes" -> state(kind, "incremental-between", "1,2");
            case "state_fallback" -> fallback(kind);
            case "chain" -> chain(kind);
            default -> throw new IllegalArgumentException(kind);
        }
    }

    private static Schema.Builder schema() {
        return Schema.newBuilder()
                .column("rid", DataTypes.BIGINT())
                .column("k", DataTypes.BIGINT())
                .column("s", DataTypes.STRING())
                .column("n", DataTypes.INT())
                .column("d", DataTypes.DECIMAL(10, 2))
                .column("e", DataTypes.FLOAT())
                .column("day", DataTypes.DATE())
                .column("p", DataTypes.STRING())
                .option("file.format", "parquet")
                .option("parquet.block.size", "8192")
                .option("parquet.page.size.row.check.min", "50")
                .option("parquet.bloom.filter.enabled#s", "true");
    }

    private static Schema.Builder indexed() {
        return schema()
                .option("file-index.bloom-filter.columns", "k")
                .option("file-index.bloom-filter.k.items", "1000")
                .option("file-index.bitmap.columns", "n");
    }

    private static Object value(DataField field, int batch, long key) {
        int drawn = RANDOM.nextInt(2000);
        boolean isNull = RANDOM.nextInt(20) == 0;
        switch (field.name()) {
            case "rid":
                return number++;
            case "k":
                return key;
            case "p":
                if (only != null) {
                    return BinaryString.fromString(only);
                }
        }
        if (isNull) {
            return null;
        }
        return switch (field.type().getTypeRoot()) {
            case INTEGER -> batch * 60 + drawn % 90;
            case BIGINT -> 3_000_000_000L + drawn;
            case DECIMAL -> Decimal.fromUnscaledLong(drawn * 7, 12, 2);
            case FLOAT -> drawn / 4f;
            case DOUBLE -> drawn / 4.0 + 0.1;
            case DATE -> batch * 20 + drawn % 30 - 40;
            default -> BinaryString.fromString((field.name().equals("p") ? "p" : "s") + drawn % 700);
        };
    }

    private static void write(FileStoreTable table, int batch, long from, long to, long step) throws Exception {
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
            write.withIOManager(IOManager.create(scratch));
            for (long key = from; key < to; key += step) {
                write.write(row(table.rowType(), batch, key));
            }
            commit.commit(write.prepareCommit());
        }
    }

    private static GenericRow row(RowType type, int batch, long key) {
        GenericRow row = new GenericRow(type.getFieldCount());
        for (int i = 0; i < type.getFieldCount(); i++) {
            row.setField(i, value(type.getFields().get(i), batch, key));
        }
        return row;
    }

    private static void compact(String name) throws Exception {
        BatchWriteBuilder builder = table(name).newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
            write.withIOManager(IOManager.create(scratch));
            write.compact(BinaryRow.EMPTY_ROW, 0, true);
            commit.commit(write.prepareCommit());
        }
    }

    /** Columns are renamed, swapped, dropped and added again, and widened. */
    private static void evolve(String name) throws Exception {
        for (SchemaChange change : List.of(
                SchemaChange.removeOption("file-index.bitmap.columns"),
                SchemaChange.renameColumn("s", "z"),
                SchemaChange.renameColumn("p", "s"),
                SchemaChange.renameColumn("z", "p"),
                SchemaChange.dropColumn("d"),
                SchemaChange.addColumn("d", DataTypes.DECIMAL(12, 2)),
                SchemaChange.updateColumnType("n", DataTypes.BIGINT()),
                SchemaChange.updateColumnType("e", DataTypes.DOUBLE()))) {
            try {
                catalog.alterTable(id(name), List.of(change), false);
            } catch (UnsupportedOperationException refused) {
                System.err.println(refused);  // of columns that say the order of rows
            }
        }
    }

    private static void append(String name, Map<String, String> options, boolean isEvolved) throws Exception {
        Schema.Builder schema = indexed().option("bucket", "-1");
        options.forEach(schema::option);
        catalog.createTable(id(name), schema.build(), false);
        for (int batch = 0; batch < 3; batch++) {
            write(table(name), batch, batch, 3000, 13);
        }
        if (isEvolved) {
            evolve(name);
            write(table(name), 4, 1, 3000, 13);
        }
    }

    /** Some columns of all rows are written anew, into files that have no others. */
    private static void dataEvolution(String name) throws Exception {
        catalog.createTable(
                id(name),
                // An index is built of each file's columns, and fails where one lacks a column.
                schema().option("bucket", "-1")
                        .option("file-index.bloom-filter.columns", "s")
                        .option("row-tracking.enabled", "true")
                        .option("data-evolution.enabled", "true")
                        .build(),
                false);
        write(table(name), 0, 0, 3000, 13);
        write(table(name), 1, 1, 3000, 13);
        FileStoreTable table = table(name);
        long rows = 231;
        RowType partial = table.rowType().project(List.of("s", "n"));
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite().withWriteType(partial);
                BatchTableCommit commit = builder.newCommit()) {
            for (int i = 0; i < rows; i++) {
                write.write(row(partial, 40, 0));
            }
            List<CommitMessage> messages = write.prepareCommit();
            for (CommitMessage message : messages) {
                List<DataFileMeta> files = ((CommitMessageImpl) message).newFilesIncrement().newFiles();
                List<DataFileMeta> placed = new ArrayList<>();
                files.forEach(file -> placed.add(file.assignFirstRowId(0L)));
                files.clear();
                files.addAll(placed);
            }
            commit.commit(messages);
        }
    }

    private static void keyed(String name, Map<String, String> options) throws Exception {
        Schema.Builder schema = indexed().primaryKey("k").option("bucket", "1");
        options.forEach(schema::option);
        catalog.createTable(id(name), schema.build(), false);
        write(table(name), 0, 0, 900, 3);
        compact(name);
        write(table(name), 1, 300, 500, 3);
        compact(name);
        if (!name.equals("pk_sequence")) {
            evolve(name);
        }
        write(table(name), 2, 100, 700, 5);
        compact(name);
        write(table(name), 3, 650, 1000, 7);
    }

    private static void branches(String name) throws Exception {
        catalog.createTable(id(name), indexed().option("bucket", "-1").build(), false);
        write(table(name), 0, 0, 3000, 13);
        table(name).createTag("old", 1);
        table(name).createBranch("other", "old");
        write(table(name), 1, 1, 3000, 13);
        write(table(name + "$branch_other"), 2, 2, 3000, 13);
        evolve(name);
        write(table(name), 3, 3, 3000, 13);
    }

    /** The table of `branches`, with an option in its newest schema by which readers see another state of it. */
    private static void state(String name, String option, String value) throws Exception {
        catalog.createTable(id(name), indexed().option("bucket", "-1").build(), false);
        write(table(name), 0, 0, 3000, 13);
        table(name).createTag("old", 1);
        table(name).createBranch("other", "old");
        write(table(name + "$branch_other"), 2, 2, 3000, 13);
        String now = "" + System.currentTimeMillis();
        Thread.sleep(20);
        write(table(name), 1, 1, 3000, 13);
        setOptions(name, Map.of(option, value == null ? now : value));
    }

    /** Adds options to the newest schema, as a release may that lets users do so. */
    private static void setOptions(String name, Map<String, String> options) throws Exception {
        FileStoreTable table = table(name);
        java.nio.file.Path folder = java.nio.file.Path.of(table.location().toUri().getPath(), "schema");
        long number = table.schema().id();
        String json = java.nio.file.Files.readString(folder.resolve("schema-" + number));
        StringBuilder added = new StringBuilder("\"options\" : {");
        options.forEach((key, value) -> added.append("\"" + key + "\" : \"" + value + "\", "));
        json = json.replaceFirst("\"id\" : " + number, "\"id\" : " + (number + 1));
        json = json.replace("\"options\" : {", added.toString());
        java.nio.file.Files.writeString(folder.resolve("schema-" + (number + 1)), json);
    }

    private static Schema.Builder parted() {
        return indexed().partitionKeys("p").primaryKey("p", "k").option("bucket", "1").option("sequence.field", "rid");
    }

    private static void writeTo(String name, String partition, int batch, long from, long to) throws Exception {
        only = partition;
        write(table(name), batch, from, to, 7);
        only = null;
    }

    /** Partitions that the table lacks are in a branch. */
    private static void fallback(String name) throws Exception {
        catalog.createTable(id(name), parted().build(), false);
        writeTo(name, "20260101", 0, 0, 900);
        table(name).createBranch("other");
        writeTo(name + "$branch_other", "20260101", 1, 0, 400);
        writeTo(name + "$branch_other", "20260102", 2, 300, 900);
        catalog.alterTable(id(name), List.of(SchemaChange.setOption("scan.fallback-branch", "other")), false);
    }

    /** A whole state of one day in a branch, and changes of the next days in another one. */
    private static void chain(String name) throws Exception {
        Map<String, String> options = Map.of(
                "chain-table.enabled", "true",
                "merge-engine", "deduplicate",
                "partition.timestamp-pattern", "$p",
                "partition.timestamp-formatter", "yyyyMMdd");
        Schema.Builder schema = parted();
        options.forEach(schema::option);
        catalog.createTable(id(name), schema.build(), false);
        table(name).createBranch("snapshot");
        table(name).createBranch("delta");
        for (String each : List.of(name, name + "$branch_snapshot", name + "$branch_delta")) {
            catalog.alterTable(
                    id(each),
                    List.of(
                            SchemaChange.setOption("scan.fallback-snapshot-branch", "snapshot"),
                            SchemaChange.setOption("scan.fallback-delta-branch", "delta")),
                    false);
        }
        writeTo(name, "20251231", 3, 0, 200);
        writeTo(name + "$branch_snapshot", "20260101", 0, 0, 900);
        writeTo(name + "$branch_delta", "20260102", 1, 300, 1200);
        writeTo(name + "$branch_delta", "20260103", 2, 0, 200);
    }

    private static Identifier id(String name) {
        return Identifier.create("n", name);
    }

    private static FileStoreTable table(String name) throws Exception {
        return (FileStoreTable) catalog.getTable(id(name));
    }

    private static String read(String name, String at) throws Exception {
        FileStoreTable table = table(at.startsWith("branch:") ? name + "$branch_" + at.substring(7) : name);
        Map<String, String> options = new HashMap<>();
        if (!at.equals("-") && !at.startsWith("branch:")) {
            options.put("scan.version", at);
        }
        table = table.copy(options);
        RowType type = table.rowType();
        StringBuilder text = new StringBuilder("{\"columns\": [");
        List<InternalRow.FieldGetter> getters = new ArrayList<>();
        for (int i = 0; i < type.getFieldCount(); i++) {
            DataField field = type.getFields().get(i);
            getters.add(InternalRow.createFieldGetter(field.type(), i));
            text.append(i == 0 ? "" : ", ");
            text.append("[\"" + field.name() + "\", \"" + field.type().asSQLString() + "\"]");
        }
        text.append("], \"rows\": [");
        ReadBuilder builder = table.newReadBuilder();
        int start = text.length();
        builder.newRead().createReader(builder.newScan().plan()).forEachRemaining(row -> {
            text.append(text.length() == start ? "[" : ", [");
            for (int i = 0; i < getters.size(); i++) {
                Object value = getters.get(i).getFieldOrNull(row);
                boolean isPlain = value == null || value instanceof Number;
                text.append(i == 0 ? "" : ", ").append(isPlain ? value : "\"" + value + "\"");
            }
            text.append("]");
        });
        return text.append("]}").toString();
    }
}
