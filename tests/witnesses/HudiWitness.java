import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.hudi.common.bloom.BloomFilter;
import org.apache.hudi.common.bloom.BloomFilterFactory;

/** Each line has the type, entries, rate, bound, when to reload (or -1), keys and questions; each answer the filter and bits. */
public class HudiWitness {
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
            System.out.println(filter.serializeToString() + "\t" + answers);
        }
    }
}
