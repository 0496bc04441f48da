import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.concurrent.atomic.AtomicLong;

import org.eclipse.californium.core.CoapClient;
import org.eclipse.californium.core.CoapHandler;
import org.eclipse.californium.core.CoapResponse;
import org.eclipse.californium.core.config.CoapConfig;
import org.eclipse.californium.core.network.CoapEndpoint;
import org.eclipse.californium.elements.config.Configuration;
import org.eclipse.californium.elements.config.UdpConfig;

/** Californium client of `cargo xtask bench-peers`; arguments and output: ../README.md. */
public final class Client {
    private static final AtomicLong ANSWERED = new AtomicLong();

    private static void ask(CoapClient server) {
        server.get(new CoapHandler() {
            @Override
            public void onLoad(CoapResponse response) {
                if (response.getPayload().length == 60) {
                    ANSWERED.incrementAndGet();
                }
                ask(server);
            }

            @Override
            public void onError() {
                System.err.println("a request has failed");
                ask(server);
            }
        });
    }

    private static void sleep(String seconds) throws InterruptedException {
        Thread.sleep((long) (Double.parseDouble(seconds) * 1000));
    }

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        int destinations = Integer.parseInt(arguments[1]);
        CoapConfig.register();
        UdpConfig.register();
        CoapEndpoint endpoint = CoapEndpoint.builder()
                .setConfiguration(Configuration.createStandardWithoutFile())
                .setInetSocketAddress(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0))
                .build();
        endpoint.start();
        for (int at = 0; at < destinations; at++) {
            CoapClient server = new CoapClient("coap://127.0.0.1:" + (port + at) + "/test");
            server.setEndpoint(endpoint);
            ask(server);
        }
        sleep(arguments[2]);
        long before = ANSWERED.get();
        sleep(arguments[3]);
        System.out.println("answered " + (ANSWERED.get() - before));
        // Californium's threads would keep the process alive.
        Runtime.getRuntime().halt(0);
    }

    private Client() {}
}
