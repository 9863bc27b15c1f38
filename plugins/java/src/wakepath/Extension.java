// SPDX-License-Identifier: MIT OR Apache-2.0
package wakepath;

import io.opentelemetry.sdk.autoconfigure.spi.AutoConfigurationCustomizer;
import io.opentelemetry.sdk.autoconfigure.spi.AutoConfigurationCustomizerProvider;
import io.opentelemetry.sdk.trace.SdkTracerProviderBuilder;

/** The OpenTelemetry agent's extension; the agent finds it by its name in META-INF/services. */
public final class Extension implements AutoConfigurationCustomizerProvider {
  @Override
  public void customize(AutoConfigurationCustomizer configuration) {
    OsThread thread = new OsThread();
    configuration.addTracerProviderCustomizer((provider, properties) -> addTo(provider, thread));
  }

  private static SdkTracerProviderBuilder addTo(SdkTracerProviderBuilder provider, OsThread thread) {
    provider.addSpanProcessor(new ThreadOfSpan(thread));
    try {
      FollowedContext.install(thread);
      provider.addSpanProcessor(new TurnsOfSpan());
    } catch (LinkageError older) {
      // An older agent's spans cannot get an attribute as they end.
    }
    return provider;
  }
}
