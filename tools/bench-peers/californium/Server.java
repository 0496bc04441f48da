import java.io.File;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

import org.eclipse.californium.core.CoapResource;
import org.eclipse.californium.core.CoapServer;
import org.eclipse.californium.core.coap.CoAP.ResponseCode;
import org.eclipse.californium.core.coap.CoAP.Type;
import org.eclipse.californium.core.coap.MediaTypeRegistry;
import org.eclipse.californium.core.config.CoapConfig;
import org.eclipse.californium.core.network.CoapEndpoint;
import org.eclipse.californium.core.server.resources.CoapExchange;
import org.eclipse.californium.elements.config.Configuration;
import org.eclipse.californium.elements.config.UdpConfig;
import org.eclipse.californium.oscore.HashMapCtxDB;
import org.eclipse.californium.oscore.OSCoreCoapStackFactory;
import org.eclipse.californium.scandium.DTLSConnector;
import org.eclipse.californium.scandium.config.DtlsConfig;
import org.eclipse.californium.scandium.config.DtlsConnectorConfig;
import org.eclipse.californium.scandium.dtls.pskstore.AdvancedSinglePskStore;

/** Californium server of `cargo xtask bench-peers`; arguments and resources: ../README.md. */
public final class Server {
    private static final int LARGE = 65536;

    private static final class Bytes extends CoapResource {
        private final byte[] payload;

        Bytes(String name, int length) {
            super(name);
            payload = new byte[length];
            Arrays.fill(payload, (byte) 'x');
        }

        @Override
        public void handleGET(CoapExchange exchange) {
            exchange.respond(ResponseCode.CONTENT, payload, MediaTypeRegistry.APPLICATION_OCTET_STREAM);
        }
    }

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        int interval = Integer.parseInt(arguments[1]);
        CoapConfig.register();
        UdpConfig.register();
        DtlsConfig.register();
        Configuration configuration = Configuration.createStandardWithoutFile();
        configuration.set(CoapConfig.MAX_RESOURCE_BODY_SIZE, LARGE);
        // Like the other servers: blocks of 1024 bytes.
        configuration.set(CoapConfig.MAX_MESSAGE_SIZE, 1024);
        configuration.set(CoapConfig.PREFERRED_BLOCK_SIZE, 1024);
        CoapServer server = new CoapServer(configuration);
        InetSocketAddress address = new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
        CoapEndpoint.Builder endpoint = CoapEndpoint.builder().setConfiguration(configuration);
        String protection = arguments.length > 3 ? arguments[2] : "";
        if (protection.equals("psk")) {
            DtlsConnectorConfig.Builder dtls = DtlsConnectorConfig.builder(configuration).setAddress(address);
            byte[] key = arguments[3].getBytes(StandardCharsets.US_ASCII);
            dtls.setAdvancedPskStore(new AdvancedSinglePskStore("bench", key));
            endpoint.setConnector(new DTLSConnector(dtls.build()));
        } else {
            endpoint.setInetSocketAddress(address);
        }
        if (protection.equals("oscore")) {
            HashMapCtxDB contexts = new HashMapCtxDB();
            for (File directory : new File(arguments[3]).listFiles()) {
                contexts.addContext(Security.context(directory.toPath(), false));
            }
            endpoint.setCoapStackFactory(new OSCoreCoapStackFactory()).setCustomCoapStackArgument(contexts);
        }
        server.addEndpoint(endpoint.build());
        Bytes tick = new Bytes("tick", 60);
        tick.setObservable(true);
        tick.setObserveType(Type.CON);
        server.add(new Bytes("test", 60), new Bytes("big", LARGE), tick);
        server.start();
        if (interval > 0) {
            ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor();
            timer.scheduleWithFixedDelay(tick::changed, interval, interval, TimeUnit.MILLISECONDS);
        }
    }

    private Server() {}
}
