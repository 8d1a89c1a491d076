// Reads and writes files with parquet-java: a line of JSON in, a line of JSON out.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.HadoopReadOptions;
import org.apache.parquet.ParquetReadOptions;
import org.apache.parquet.example.data.Group;
import org.apache.parquet.example.data.simple.SimpleGroup;
import org.apache.parquet.filter2.compat.FilterCompat;
import org.apache.parquet.filter2.predicate.FilterApi;
import org.apache.parquet.filter2.predicate.FilterPredicate;
import org.apache.parquet.filter2.predicate.Operators.Column;
import org.apache.parquet.filter2.predicate.Operators.Eq;
import org.apache.parquet.filter2.predicate.Operators.In;
import org.apache.parquet.filter2.predicate.Operators.SupportsEqNotEq;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.ParquetReader;
import org.apache.parquet.hadoop.ParquetWriter;
import org.apache.parquet.hadoop.example.ExampleParquetWriter;
import org.apache.parquet.hadoop.example.GroupReadSupport;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.parquet.hadoop.util.HadoopOutputFile;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName;
import org.apache.parquet.schema.Type;

public class ParquetJava {
  static final Configuration CONFIGURATION = new Configuration();

  public static void main(String[] arguments) throws Exception {
    ObjectMapper json = new ObjectMapper();
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      JsonNode request = json.readTree(line);
      Object answer;
      try {
        answer = request.get("do").asText().equals("find") ? find(request) : write(request);
      } catch (Exception | AssertionError error) {
        answer = Map.of("error", error.getClass().getSimpleName() + ": " + error.getMessage());
      }
      System.out.println(json.writeValueAsString(answer));
    }
  }

  static HadoopInputFile input(JsonNode path) throws Exception {
    return HadoopInputFile.fromPath(new Path(path.asText()), CONFIGURATION);
  }

  static MessageType schema(JsonNode path) throws Exception {
    try (ParquetFileReader reader = ParquetFileReader.open(input(path))) {
      return reader.getFileMetaData().getSchema();
    }
  }

  static List<Group> rows(JsonNode path, FilterPredicate predicate) throws Exception {
    List<Group> rows = new ArrayList<>();
    ParquetReader.Builder<Group> builder = ParquetReader.builder(new GroupReadSupport(), new Path(path.asText()));
    if (predicate != null) {
      builder = builder.withFilter(FilterCompat.get(predicate)).useBloomFilter(true);
    }
    try (ParquetReader<Group> reader = builder.build()) {
      for (Group row = reader.read(); row != null; row = reader.read()) {
        rows.add(row);
      }
    }
    return rows;
  }

  /** A column equals a value, or one of several; or has it among its values, if it is a list or a map. */
  static <T extends Comparable<T>, C extends Column<T> & SupportsEqNotEq> FilterPredicate holds(
      C column, List<?> values, boolean isRepeated) {
    @SuppressWarnings("unchecked")
    Set<T> wanted = new LinkedHashSet<>((List<T>) values);
    if (wanted.size() == 1) {
      Eq<T> equal = FilterApi.eq(column, wanted.iterator().next());
      return isRepeated ? FilterApi.contains(equal) : equal;
    }
    In<T> in = FilterApi.in(column, wanted);
    return isRepeated ? FilterApi.contains(in) : in;
  }

  static Object value(JsonNode place, String[] steps, PrimitiveTypeName type) throws Exception {
    Group group = rows(place.get("file"), null).get(place.get("row").asInt());
    for (int i = 0; i < steps.length - 1; i++) {
      group = group.getGroup(steps[i], 0);
    }
    String name = steps[steps.length - 1];
    return switch (type) {
      case BOOLEAN -> group.getBoolean(name, 0);
      case INT32 -> group.getInteger(name, 0);
      case INT64 -> group.getLong(name, 0);
      case FLOAT -> group.getFloat(name, 0);
      case DOUBLE -> group.getDouble(name, 0);
      case INT96 -> group.getInt96(name, 0);
      default -> group.getBinary(name, 0);
    };
  }

  static Object find(JsonNode request) throws Exception {
    String leaf = request.get("leaf").asText();
    String[] steps = leaf.split("\\.");
    MessageType schema = schema(request.get("file"));
    PrimitiveTypeName type = schema.getType(steps).asPrimitiveType().getPrimitiveTypeName();
    boolean isRepeated = schema.getMaxRepetitionLevel(steps) > 0;
    List<Object> values = new ArrayList<>();
    for (JsonNode place : request.get("values")) {
      values.add(value(place, steps, type));
    }
    FilterPredicate predicate =
        switch (type) {
          case BOOLEAN -> holds(FilterApi.booleanColumn(leaf), values, isRepeated);
          case INT32 -> holds(FilterApi.intColumn(leaf), values, isRepeated);
          case INT64 -> holds(FilterApi.longColumn(leaf), values, isRepeated);
          case FLOAT -> holds(FilterApi.floatColumn(leaf), values, isRepeated);
          case DOUBLE -> holds(FilterApi.doubleColumn(leaf), values, isRepeated);
          default -> holds(FilterApi.binaryColumn(leaf), values, isRepeated);
        };
    List<Long> found = new ArrayList<>();
    for (Group row : rows(request.get("file"), predicate)) {
      found.add(row.getLong("k", 0));
    }
    ParquetReadOptions options = HadoopReadOptions.builder(CONFIGURATION)
        .withRecordFilter(FilterCompat.get(predicate))
        .useBloomFilter(true)
        .build();
    try (ParquetFileReader reader = ParquetFileReader.open(input(request.get("file")), options)) {
      return Map.of("rows", found, "read", reader.getRowGroups().size());
    }
  }

  static Object write(JsonNode request) throws Exception {
    Type field = schema(request.get("file")).getType("v");
    MessageType schema = new MessageType("schema", field);
    try (ParquetWriter<Group> writer = ExampleParquetWriter.builder(
            HadoopOutputFile.fromPath(new Path(request.get("output").asText()), CONFIGURATION))
        .withType(schema)
        .withDictionaryEncoding(false)
        .withRowGroupRowCountLimit(100)
        .withMinRowCountForPageSizeCheck(10)
        .withBloomFilterEnabled("v", true)
        .withBloomFilterNDV("v", 100L)
        .withBloomFilterFPP("v", 0.01)
        .build()) {
      for (Group row : rows(request.get("file"), null)) {
        SimpleGroup copy = new SimpleGroup(schema);
        switch (field.asPrimitiveType().getPrimitiveTypeName()) {
          case BOOLEAN -> copy.add("v", row.getBoolean("v", 0));
          case INT32 -> copy.add("v", row.getInteger("v", 0));
          case INT64 -> copy.add("v", row.getLong("v", 0));
          case FLOAT -> copy.add("v", row.getFloat("v", 0));
          case DOUBLE -> copy.add("v", row.getDouble("v", 0));
          case INT96 -> copy.add("v", row.getInt96("v", 0));
          default -> copy.add("v", row.getBinary("v", 0));
        }
        writer.write(copy);
      }
    }
    return Map.of();
  }
}
