import java.net.InetAddress;
import java.net.InetSocketAddress;
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

/** The server that `cargo xtask bench-peers` has Californium be; its arguments and resources are in ../README.md. */
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
        Configuration configuration = Configuration.createStandardWithoutFile();
        configuration.set(CoapConfig.MAX_RESOURCE_BODY_SIZE, LARGE);
        // As others have it: room for blocks of 1024 bytes.
        configuration.set(CoapConfig.MAX_MESSAGE_SIZE, 1024);
        configuration.set(CoapConfig.PREFERRED_BLOCK_SIZE, 1024);
        CoapServer server = new CoapServer(configuration);
        server.addEndpoint(CoapEndpoint.builder()
                .setConfiguration(configuration)
                .setInetSocketAddress(new InetSocketAddress(InetAddress.getLoopbackAddress(), port))
                .build());
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
