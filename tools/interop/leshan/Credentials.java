// Credentials from the files of ../credentials.

import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.PrivateKey;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;

final class Credentials {
    final Path directory;

    Credentials(String directory) {
        this.directory = Path.of(directory);
    }

    /** The identity and the key. */
    String[] psk() throws Exception {
        return Files.readString(directory.resolve("psk")).strip().split(":", 2);
    }

    X509Certificate certificate(String name) throws Exception {
        try (InputStream file = Files.newInputStream(directory.resolve(name + ".pem"))) {
            return (X509Certificate) CertificateFactory.getInstance("X.509").generateCertificate(file);
        }
    }

    PrivateKey key(String name) throws Exception {
        String text = Files.readString(directory.resolve(name + ".key")).replaceAll("-----[A-Z ]+-----", "");
        return KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(Base64.getMimeDecoder().decode(text)));
    }
}
