// Has trino-parquet choose the row groups of files: a line of JSON in, a line of JSON out.

import static io.trino.spi.type.VarbinaryType.VARBINARY;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.airlift.slice.Slices;
import io.trino.parquet.AbstractParquetDataSource;
import io.trino.parquet.ParquetDataSourceId;
import io.trino.parquet.ParquetReaderOptions;
import io.trino.parquet.ParquetTypeUtils;
import io.trino.parquet.metadata.ParquetMetadata;
import io.trino.parquet.predicate.PredicateUtils;
import io.trino.parquet.reader.MetadataReader;
import io.trino.spi.predicate.Domain;
import io.trino.spi.predicate.TupleDomain;
import io.trino.spi.type.BigintType;
import io.trino.spi.type.BooleanType;
import io.trino.spi.type.DateType;
import io.trino.spi.type.DecimalType;
import io.trino.spi.type.DoubleType;
import io.trino.spi.type.Int128;
import io.trino.spi.type.IntegerType;
import io.trino.spi.type.LongTimestamp;
import io.trino.spi.type.RealType;
import io.trino.spi.type.SmallintType;
import io.trino.spi.type.TimeType;
import io.trino.spi.type.TimestampType;
import io.trino.spi.type.TinyintType;
import io.trino.spi.type.UuidType;
import io.trino.spi.type.VarcharType;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.RandomAccessFile;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.parquet.column.ColumnDescriptor;
import org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.DecimalLogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.IntLogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.TimeLogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.TimestampLogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.TimeUnit;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.PrimitiveType;
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName;
import org.joda.time.DateTimeZone;

public class TrinoParquet {
  public static void main(String[] arguments) throws Exception {
    ObjectMapper json = new ObjectMapper();
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      JsonNode request = json.readTree(line);
      Object answer;
      try {
        List<byte[]> plain = new ArrayList<>();
        for (JsonNode value : request.get("plain")) {
          plain.add(HexFormat.of().parseHex(value.asText()));
        }
        String[] names = {request.get("file").asText(), request.get("leaf").asText(), request.get("type").asText()};
        answer = Map.of("groups", groups(names[0], names[1], plain, names[2]));
      } catch (NotTried reason) {
        answer = Map.of("not tried", reason.getMessage());
      } catch (NoType reason) {
        answer = Map.of("no way", reason.getMessage());
      } catch (Exception error) {
        answer = Map.of("error", error.getClass().getSimpleName() + ": " + error.getMessage());
      }
      System.out.println(json.writeValueAsString(answer));
    }
  }

  /** Trino cannot have the value. */
  static class NoType extends RuntimeException {
    NoType(String reason) {
      super(reason);
    }
  }

  /** Trino might have the value, in a way that this program does not try. */
  static class NotTried extends RuntimeException {
    NotTried(String reason) {
      super(reason);
    }
  }

  static class FileSource extends AbstractParquetDataSource {
    private final RandomAccessFile file;

    FileSource(String path, ParquetReaderOptions options) throws IOException {
      super(new ParquetDataSourceId(path), new java.io.File(path).length(), options);
      file = new RandomAccessFile(path, "r");
    }

    @Override
    protected void readInternal(long position, byte[] buffer, int offset, int length) throws IOException {
      file.seek(position);
      file.readFully(buffer, offset, length);
    }

    @Override
    public void close() throws IOException {
      file.close();
    }
  }

  /** The first rows of the row groups that may hold one of the values, in the table's type if it has another. */
  static List<Long> groups(String path, String leaf, List<byte[]> plain, String widened) throws Exception {
    ParquetReaderOptions options = ParquetReaderOptions.builder().withBloomFilter(true).build();
    try (FileSource source = new FileSource(path, options)) {
      ParquetMetadata metadata = MetadataReader.readFooter(source, options, Optional.empty(), Optional.empty());
      MessageType schema = metadata.getFileMetaData().getSchema();
      Map<List<String>, ColumnDescriptor> columns = ParquetTypeUtils.getDescriptors(schema, schema);
      ColumnDescriptor column = columns.get(List.of(leaf.split("\\.")));
      PrimitiveType type = column.getPrimitiveType();
      List<Domain> domains =
          plain.stream()
              .map(value -> widened.isEmpty() ? domain(type, value) : widened(type, value, widened))
              .toList();
      TupleDomain<ColumnDescriptor> domain = TupleDomain.withColumnDomains(Map.of(column, Domain.union(domains)));
      return PredicateUtils.getFilteredRowGroups(
              0,
              source.getEstimatedSize(),
              source,
              metadata,
              List.of(domain),
              List.of(PredicateUtils.buildPredicate(schema, domain, columns, DateTimeZone.UTC)),
              columns,
              DateTimeZone.UTC,
              1000,
              options)
          .stream()
          .map(group -> group.fileRowOffset())
          .toList();
    }
  }

  /** A value as Trino has it in a table whose column has another type than the file's. */
  static Domain widened(PrimitiveType type, byte[] plain, String name) {
    ByteBuffer bytes = ByteBuffer.wrap(plain).order(ByteOrder.LITTLE_ENDIAN);
    LogicalTypeAnnotation logical = type.getLogicalTypeAnnotation();
    boolean isUnsigned = logical instanceof IntLogicalTypeAnnotation integer && !integer.isSigned();
    if (type.getPrimitiveTypeName() == PrimitiveTypeName.FLOAT) {
      return Domain.singleValue(DoubleType.DOUBLE, (double) bytes.getFloat(0));
    }
    BigInteger number =
        switch (type.getPrimitiveTypeName()) {
          case INT32 -> BigInteger.valueOf(isUnsigned ? Integer.toUnsignedLong(bytes.getInt(0)) : bytes.getInt(0));
          case INT64 -> isUnsigned
              ? new BigInteger(Long.toUnsignedString(bytes.getLong(0)))
              : BigInteger.valueOf(bytes.getLong(0));
          default -> new BigInteger(plain);
        };
    return switch (name.split("\\(")[0]) {
      case "SMALLINT" -> Domain.singleValue(SmallintType.SMALLINT, number.longValueExact());
      case "INTEGER" -> Domain.singleValue(IntegerType.INTEGER, number.longValueExact());
      case "BIGINT" -> Domain.singleValue(BigintType.BIGINT, number.longValueExact());
      case "DOUBLE" -> Domain.singleValue(DoubleType.DOUBLE, number.doubleValue());
      case "TIMESTAMP" -> Domain.singleValue(
          TimestampType.createTimestampType(6), number.longValueExact() * 86_400_000_000L);
      default -> {
        String[] digits = name.replaceAll("[^0-9,]", "").split(",");
        DecimalType trino = DecimalType.createDecimalType(Integer.parseInt(digits[0]), Integer.parseInt(digits[1]));
        int scale = logical instanceof DecimalLogicalTypeAnnotation decimal ? decimal.getScale() : 0;
        BigInteger unscaled = number.multiply(BigInteger.TEN.pow(trino.getScale() - scale));
        yield Domain.singleValue(
            trino, trino.isShort() ? (Object) unscaled.longValueExact() : Int128.valueOf(unscaled));
      }
    };
  }

  /** A value as Trino has it in the type that its connectors give such a column. */
  static Domain domain(PrimitiveType type, byte[] plain) {
    LogicalTypeAnnotation logical = type.getLogicalTypeAnnotation();
    PrimitiveTypeName physical = type.getPrimitiveTypeName();
    ByteBuffer bytes = ByteBuffer.wrap(plain).order(ByteOrder.LITTLE_ENDIAN);
    boolean isInteger = physical == PrimitiveTypeName.INT32 || physical == PrimitiveTypeName.INT64;
    long number = !isInteger ? 0 : physical == PrimitiveTypeName.INT32 ? bytes.getInt(0) : bytes.getLong(0);
    if (logical instanceof DecimalLogicalTypeAnnotation decimal) {
      DecimalType trino = DecimalType.createDecimalType(decimal.getPrecision(), decimal.getScale());
      BigInteger unscaled = isInteger ? BigInteger.valueOf(number) : new BigInteger(plain);
      return Domain.singleValue(trino, trino.isShort() ? (Object) unscaled.longValueExact() : Int128.valueOf(unscaled));
    }
    if (logical instanceof IntLogicalTypeAnnotation integer) {
      if (!integer.isSigned()) {
        throw new NotTried("a table gives it a wider type: Trino has no unsigned integers");
      }
      return switch (integer.getBitWidth()) {
        case 8 -> Domain.singleValue(TinyintType.TINYINT, number);
        case 16 -> Domain.singleValue(SmallintType.SMALLINT, number);
        case 32 -> Domain.singleValue(IntegerType.INTEGER, number);
        default -> Domain.singleValue(BigintType.BIGINT, number);
      };
    }
    if (logical instanceof TimeLogicalTypeAnnotation time) {
      long scale = scale(time.getUnit());
      return Domain.singleValue(TimeType.createTimeType(digits(time.getUnit())), number * (1_000_000_000_000L / scale));
    }
    if (logical instanceof TimestampLogicalTypeAnnotation timestamp) {
      TimestampType trino = TimestampType.createTimestampType(digits(timestamp.getUnit()));
      long micros = timestamp.getUnit() == TimeUnit.MILLIS ? number * 1000 : number;
      return Domain.singleValue(
          trino,
          timestamp.getUnit() != TimeUnit.NANOS
              ? (Object) micros
              : new LongTimestamp(Math.floorDiv(number, 1000L), (int) Math.floorMod(number, 1000L) * 1000));
    }
    if (logical instanceof LogicalTypeAnnotation.DateLogicalTypeAnnotation) {
      return Domain.singleValue(DateType.DATE, number);
    }
    if (logical instanceof LogicalTypeAnnotation.UUIDLogicalTypeAnnotation) {
      return Domain.singleValue(UuidType.UUID, Slices.wrappedBuffer(plain));
    }
    if (logical instanceof LogicalTypeAnnotation.StringLogicalTypeAnnotation
        || logical instanceof LogicalTypeAnnotation.EnumLogicalTypeAnnotation
        || logical instanceof LogicalTypeAnnotation.JsonLogicalTypeAnnotation) {
      return Domain.singleValue(VarcharType.VARCHAR, Slices.wrappedBuffer(plain));
    }
    if (logical != null && !(logical instanceof LogicalTypeAnnotation.BsonLogicalTypeAnnotation)) {
      throw new NoType("Trino has no type for " + logical);
    }
    return switch (physical) {
      case BOOLEAN -> Domain.singleValue(BooleanType.BOOLEAN, plain[0] != 0);
      case INT32 -> Domain.singleValue(IntegerType.INTEGER, number);
      case INT64 -> Domain.singleValue(BigintType.BIGINT, number);
      case FLOAT -> Domain.singleValue(RealType.REAL, (long) bytes.getInt(0));
      case DOUBLE -> Domain.singleValue(DoubleType.DOUBLE, bytes.getDouble(0));
      case INT96 -> Domain.singleValue(
          TimestampType.createTimestampType(6),
          (bytes.getInt(8) - 2_440_588) * 86_400_000_000L + bytes.getLong(0) / 1000);
      default -> Domain.singleValue(VARBINARY, Slices.wrappedBuffer(plain));
    };
  }

  static int digits(TimeUnit unit) {
    return unit == TimeUnit.MILLIS ? 3 : unit == TimeUnit.MICROS ? 6 : 9;
  }

  static long scale(TimeUnit unit) {
    return (long) Math.pow(10, digits(unit));
  }
}
