// SPDX-License-Identifier: MIT OR Apache-2.0
package wakepath;

import io.opentelemetry.sdk.autoconfigure.spi.AutoConfigurationCustomizer;
import io.opentelemetry.sdk.autoconfigure.spi.AutoConfigurationCustomizerProvider;

/** The extension of the OpenTelemetry agent, which finds it by its name in META-INF/services. */
public final class Extension implements AutoConfigurationCustomizerProvider {
  @Override
  public void customize(AutoConfigurationCustomizer configuration) {
    OsThread thread = new OsThread();
    configuration.addTracerProviderCustomizer(
        (provider, properties) -> provider.addSpanProcessor(new ThreadOfSpan(thread)));
  }
}
