// Credentials and trust of a secured mode, from the files of ../credentials.

import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.PrivateKey;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.HexFormat;
import java.util.regex.Pattern;
import org.eclipse.californium.core.coap.Request;
import org.eclipse.californium.core.config.CoapConfig;
import org.eclipse.californium.core.network.CoapEndpoint;
import org.eclipse.californium.elements.config.CertificateAuthenticationMode;
import org.eclipse.californium.elements.config.Configuration;
import org.eclipse.californium.elements.util.Bytes;
import org.eclipse.californium.oscore.HashMapCtxDB;
import org.eclipse.californium.oscore.OSCoreCoapStackFactory;
import org.eclipse.californium.oscore.OSCoreCtx;
import org.eclipse.californium.scandium.DTLSConnector;
import org.eclipse.californium.scandium.config.DtlsConfig;
import org.eclipse.californium.scandium.config.DtlsConfig.DtlsRole;
import org.eclipse.californium.scandium.config.DtlsConnectorConfig;
import org.eclipse.californium.scandium.dtls.pskstore.AdvancedSinglePskStore;
import org.eclipse.californium.scandium.dtls.x509.SingleCertificateProvider;
import org.eclipse.californium.scandium.dtls.x509.StaticNewAdvancedCertificateVerifier;

final class Security {
    final String mode;
    /** Directory of the credentials. */
    final Path directory;
    final boolean asks;
    /** Any, of a client. */
    final InetSocketAddress local;
    final HashMapCtxDB contexts = new HashMapCtxDB();
    OSCoreCtx context;

    /** Of a client from [MODE CREDENTIALS], of a server from ADDRESS PORT [MODE CREDENTIALS]. */
    Security(String[] arguments, boolean asks) throws Exception {
        int at = asks ? 0 : 2;
        mode = arguments.length > at ? arguments[at] : "plain";
        directory = arguments.length > at ? Path.of(arguments[at + 1]) : null;
        this.asks = asks;
        local = asks ? new InetSocketAddress(0) : new InetSocketAddress(InetAddress.getByName(arguments[0]), Integer.parseInt(arguments[1]));
    }

    static Configuration configuration() {
        CoapConfig.register();
        DtlsConfig.register();
        return Configuration.createStandardWithoutFile();
    }

    /** An endpoint at the local address. */
    CoapEndpoint endpoint(Configuration configuration) throws Exception {
        CoapEndpoint.Builder builder = new CoapEndpoint.Builder().setConfiguration(configuration);
        switch (mode) {
            case "plain" -> builder.setInetSocketAddress(local);
            case "oscore" -> {
                context = context(directory.resolve(asks ? "oscore-client" : "oscore-server"), asks);
                contexts.addContext(context);
                builder.setInetSocketAddress(local);
                builder.setCoapStackFactory(new OSCoreCoapStackFactory()).setCustomCoapStackArgument(contexts);
            }
            default -> builder.setConnector(new DTLSConnector(dtls(configuration)));
        }
        return builder.build();
    }

    /** Protects a request, in modes where requests select it. */
    void protect(Request request) {
        if (context == null) {
            return;
        }
        try {
            // One server, behind several ports.
            contexts.addContext(request.getURI(), context);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
        request.getOptions().setOscore(Bytes.EMPTY);
    }

    /** The OSCORE context of credentials in aiocoap's format. */
    static OSCoreCtx context(Path directory, boolean asks) throws Exception {
        String text = Files.readString(directory.resolve("secret.json"));
        return new OSCoreCtx(item(text, "secret"), asks, null, item(text, "sender-id"), item(text, "recipient-id"), null, 32,
                item(text, "salt"), null, 4096);
    }

    private static byte[] item(String text, String name) {
        var found = Pattern.compile("\"" + name + "_hex\": \"([0-9a-f]*)\"").matcher(text);
        if (!found.find()) {
            throw new IllegalArgumentException("there is no " + name);
        }
        return HexFormat.of().parseHex(found.group(1));
    }

    private DtlsConnectorConfig dtls(Configuration configuration) throws Exception {
        DtlsConnectorConfig.Builder builder = DtlsConnectorConfig.builder(configuration).setAddress(local);
        builder.set(DtlsConfig.DTLS_ROLE, asks ? DtlsRole.CLIENT_ONLY : DtlsRole.SERVER_ONLY);
        if (mode.equals("psk")) {
            String[] psk = Files.readString(directory.resolve("psk")).strip().split(":", 2);
            return builder.setAdvancedPskStore(new AdvancedSinglePskStore(psk[0], psk[1].getBytes())).build();
        }
        boolean mutual = mode.equals("mutual");
        if (!asks) {
            builder.set(DtlsConfig.DTLS_CLIENT_AUTHENTICATION_MODE,
                    mutual ? CertificateAuthenticationMode.NEEDED : CertificateAuthenticationMode.NONE);
        }
        if (!asks || mutual) {
            String own = asks ? "client" : "server";
            builder.setCertificateIdentityProvider(
                    new SingleCertificateProvider(key(own), new X509Certificate[] {certificate(own)}));
        }
        if (asks || mutual) {
            builder.setAdvancedCertificateVerifier(
                    StaticNewAdvancedCertificateVerifier.builder().setTrustedCertificates(certificate("ca")).build());
        }
        return builder.build();
    }

    private X509Certificate certificate(String name) throws Exception {
        try (InputStream file = Files.newInputStream(directory.resolve(name + ".pem"))) {
            return (X509Certificate) CertificateFactory.getInstance("X.509").generateCertificate(file);
        }
    }

    private PrivateKey key(String name) throws Exception {
        String text = Files.readString(directory.resolve(name + ".key")).replaceAll("-----[A-Z ]+-----", "");
        return KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(Base64.getMimeDecoder().decode(text)));
    }
}
