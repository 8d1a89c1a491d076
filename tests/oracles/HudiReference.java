import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.hudi.avro.HoodieBloomFilterWriteSupport;
import org.apache.hudi.common.bloom.BloomFilter;
import org.apache.hudi.common.bloom.BloomFilterFactory;

/**
 * Each line has the type, entries, rate, bound, when to reload (or -1), keys and questions; each answer the filter, bits,
 * and what Hudi writes beside it into a footer: the type's code, the least and the greatest key, in Base64.
 */
public class HudiReference {
    static String[] words(String packed) {
        if (packed.isEmpty()) {
            return new String[0];
        }
        String[] found = packed.split(",");
        for (int i = 0; i < found.length; i++) {
            found[i] = new String(Base64.getDecoder().decode(found[i]), StandardCharsets.UTF_8);
        }
        return found;
    }

    static Map<String, String> footer(String[] parts, String[] keys) {
        BloomFilter filter = BloomFilterFactory.createBloomFilter(
            Integer.parseInt(parts[1]), Double.parseDouble(parts[2]), Integer.parseInt(parts[3]), parts[0]);
        var support = new HoodieBloomFilterWriteSupport<String>(filter) {
            @Override
            protected byte[] getUTF8Bytes(String key) {
                return key.getBytes(StandardCharsets.UTF_8);
            }
        };
        for (String key : keys) {
            support.addKey(key);
        }
        return support.finalizeMetadata();
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", -1);
            String type = parts[0];
            BloomFilter filter = BloomFilterFactory.createBloomFilter(
                Integer.parseInt(parts[1]), Double.parseDouble(parts[2]), Integer.parseInt(parts[3]), type);
            String[] keys = words(parts[5]);
            for (int i = 0; i < keys.length; i++) {
                if (i == Integer.parseInt(parts[4])) {
                    filter = BloomFilterFactory.fromString(filter.serializeToString(), type);
                }
                filter.add(keys[i]);
            }
            StringBuilder answers = new StringBuilder();
            for (String asked : words(parts[6])) {
                answers.append(filter.mightContain(asked) ? '1' : '0');
            }
            Map<String, String> footer = footer(parts, keys);
            StringBuilder beside = new StringBuilder();
            for (String name : List.of("hoodie_bloom_filter_type_code", "hoodie_min_record_key", "hoodie_max_record_key")) {
                String found = footer.getOrDefault(name, "");
                beside.append('\t').append(Base64.getEncoder().encodeToString(found.getBytes(StandardCharsets.UTF_8)));
            }
            System.out.println(filter.serializeToString() + "\t" + answers + beside);
        }
    }
}
