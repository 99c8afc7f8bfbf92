import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Prints what each URL answers, or that it failed. The first argument is the CA's file. */
class Fetch {
    public static void main(String[] arguments) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (InputStream file = Files.newInputStream(Path.of(arguments[0]))) {
            store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        HttpClient client = HttpClient.newBuilder().sslContext(context).connectTimeout(Duration.ofSeconds(10)).build();
        int failures = 0;
        for (int at = 1; at < arguments.length; at++) {
            HttpRequest request = HttpRequest.newBuilder(URI.create(arguments[at])).timeout(Duration.ofSeconds(10)).build();
            try {
                System.out.print(client.send(request, BodyHandlers.ofString()).body());
            } catch (Exception failure) {
                System.out.println("failed " + arguments[at] + ": " + failure);
                failures++;
            }
        }
        System.exit(failures);
    }
}
