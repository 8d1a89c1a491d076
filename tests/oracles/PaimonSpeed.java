import java.util.Random;
import java.util.function.Supplier;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.fileindex.FileIndexReader;
import org.apache.paimon.fileindex.FileIndexWriter;
import org.apache.paimon.fileindex.bloomfilter.BloomFilterFileIndex;
import org.apache.paimon.fs.ByteArraySeekableStream;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.FieldRef;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypes;

/** Tells the nanoseconds that Paimon's own classes take for each of so many keys, to build and to probe, warmed up. */
public final class PaimonSpeed {
    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[0]);
        Random random = new Random(7);
        Object[] numbers = new Object[count], texts = new Object[count];
        for (int i = 0; i < count; i++) {
            numbers[i] = random.nextLong();
            texts[i] = BinaryString.fromString(String.format("%016x%016x", random.nextLong(), random.nextLong()));
        }
        measure("BIGINT", DataTypes.BIGINT(), numbers);
        measure("STRING", DataTypes.STRING(), texts);
    }

    private static void measure(String name, DataType type, Object[] keys) throws Exception {
        Options options = new Options();
        options.set("items", "" + keys.length);
        BloomFilterFileIndex index = new BloomFilterFileIndex(type, options);
        byte[] payload = built(index, keys);
        double build = best(() -> built(index, keys), keys.length);
        FieldRef field = new FieldRef(0, "x", type);
        FileIndexReader reader = index.createReader(new ByteArraySeekableStream(payload), 0, payload.length);
        double probe = best(() -> {
            int found = 0;
            for (Object key : keys) {
                found += reader.visitEqual(field, key).remain() ? 1 : 0;
            }
            return found;
        }, keys.length);
        System.out.println(name + "\t" + build + "\t" + probe);
    }

    private static byte[] built(BloomFilterFileIndex index, Object[] keys) {
        FileIndexWriter writer = index.createWriter();
        for (Object key : keys) {
            writer.write(key);
        }
        return writer.serializedBytes();
    }

    private static double best(Supplier<Object> call, int count) {
        double best = Double.MAX_VALUE;
        for (int turn = 0; turn < 30; turn++) { // the first ones warm up
            long start = System.nanoTime();
            call.get();
            best = Math.min(best, (System.nanoTime() - start) / (double) count);
        }
        return best;
    }
}
