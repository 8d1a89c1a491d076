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
        boolean isWidened = request.get("widened").asBoolean();
        answer = Map.of("groups", groups(request.get("file").asText(), request.get("leaf").asText(), plain, isWidened));
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

  /** The first rows of the row groups that may hold one of the values. */
  static List<Long> groups(String path, String leaf, List<byte[]> plain, boolean isWidened)
      throws Exception {
    ParquetReaderOptions options = ParquetReaderOptions.builder().withBloomFilter(true).build();
    try (FileSource source = new FileSource(path, options)) {
      ParquetMetadata metadata = MetadataReader.readFooter(source, options, Optional.empty(), Optional.empty());
      MessageType schema = metadata.getFileMetaData().getSchema();
      Map<List<String>, ColumnDescriptor> columns = ParquetTypeUtils.getDescriptors(schema, schema);
      ColumnDescriptor column = columns.get(List.of(leaf.split("\\.")));
      List<Domain> domains =
          plain.stream().map(value -> isWidened ? widened(value) : domain(column.getPrimitiveType(), value)).toList();
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

  /** A value of INT32 as Trino has it in a table whose column is a BIGINT by now. */
  static Domain widened(byte[] plain) {
    long number = ByteBuffer.wrap(plain).order(ByteOrder.LITTLE_ENDIAN).getInt(0);
    return Domain.singleValue(BigintType.BIGINT, number);
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
