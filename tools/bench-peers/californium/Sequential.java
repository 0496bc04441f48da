import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;

import org.eclipse.californium.core.CoapClient;
import org.eclipse.californium.core.CoapHandler;
import org.eclipse.californium.core.CoapResponse;
import org.eclipse.californium.core.config.CoapConfig;
import org.eclipse.californium.core.config.CoapConfig.CongestionControlMode;
import org.eclipse.californium.core.network.CoapEndpoint;
import org.eclipse.californium.elements.config.Configuration;
import org.eclipse.californium.elements.config.UdpConfig;

/** Californium client of `cargo xtask implementations`; arguments and output: ../../implementations/README.md. */
public final class Sequential {
    private static boolean ask(CoapClient server) {
        CompletableFuture<Boolean> answered = new CompletableFuture<>();
        server.get(new CoapHandler() {
            @Override
            public void onLoad(CoapResponse response) {
                answered.complete(true);
            }

            @Override
            public void onError() {
                answered.complete(false);
            }
        });
        return answered.join();
    }

    private static double now() {
        java.time.Instant now = java.time.Instant.now();
        return now.getEpochSecond() + now.getNano() / 1e9;
    }

    private static void sleep(double seconds) throws InterruptedException {
        Thread.sleep((long) (Math.max(0, seconds) * 1000));
    }

    public static void main(String[] arguments) throws Exception {
        int exchanges = Integer.parseInt(arguments[2]);
        double interval = Double.parseDouble(arguments[3]);
        CoapConfig.register();
        UdpConfig.register();
        Configuration configuration = Configuration.createStandardWithoutFile();
        if (arguments.length > 5) {
            configuration.set(CoapConfig.CONGESTION_CONTROL_ALGORITHM, CongestionControlMode.valueOf(arguments[5]));
        }
        CoapEndpoint endpoint = CoapEndpoint.builder()
                .setConfiguration(configuration)
                .setInetSocketAddress(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0))
                .build();
        endpoint.start();
        CoapClient server = new CoapClient("coap://" + arguments[0] + ":" + arguments[1] + "/");
        server.setEndpoint(endpoint);
        sleep(Double.parseDouble(arguments[4]) - now());
        for (int at = 0; at < exchanges; at++) {
            double began = now();
            boolean answered = ask(server);
            String line = "{\"start\": %.6f, \"end\": %.6f, \"answered\": %b}";
            System.out.println(String.format(Locale.ROOT, line, began, now(), answered));
            sleep(interval);
        }
        // Californium's threads would keep the process alive.
        Runtime.getRuntime().halt(0);
    }

    private Sequential() {}
}
