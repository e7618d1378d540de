//! Traces to an OpenTelemetry collector (OTLP over HTTP), in builds with the
//! feature `otlp`. A build without it says so when a collector is named.

use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

use crate::config::Traces as TraceSettings;

/// The connection to the collector.
pub(crate) struct TraceExporter {
    #[cfg(feature = "otlp")]
    provider: Option<opentelemetry_sdk::trace::SdkTracerProvider>,
}

#[cfg(not(feature = "otlp"))]
impl TraceExporter {
    /// Fails if a collector is configured: this build has no exporter.
    pub(crate) fn open(settings: &TraceSettings) -> anyhow::Result<Self> {
        if settings.otlp_endpoint.is_some() {
            anyhow::bail!(
                "traces.otlp_endpoint is set, but this build has no trace exporter: build with --features otlp"
            );
        }
        Ok(Self {})
    }

    /// No layer.
    pub(crate) fn layer<S>(&mut self) -> Option<Box<dyn Layer<S> + Send + Sync>>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        None
    }

    /// Nothing to send.
    pub(crate) fn finish(&self) {}
}

#[cfg(feature = "otlp")]
impl TraceExporter {
    /// Prepares the exporter, if a collector is configured.
    pub(crate) fn open(settings: &TraceSettings) -> anyhow::Result<Self> {
        use anyhow::Context;
        use opentelemetry_otlp::{SpanExporter, WithExportConfig};
        use opentelemetry_sdk::Resource;
        use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};

        let Some(endpoint) = &settings.otlp_endpoint else {
            return Ok(Self { provider: None });
        };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
            .build()
            .context("reach the trace collector")?;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(
                settings.sample,
            ))))
            .with_resource(Resource::builder().with_service_name("ballast").build())
            .build();
        Ok(Self {
            provider: Some(provider),
        })
    }

    /// The layer that turns spans into traces.
    pub(crate) fn layer<S>(&mut self) -> Option<Box<dyn Layer<S> + Send + Sync>>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        use opentelemetry::trace::TracerProvider;

        let tracer = self.provider.as_ref()?.tracer("ballast");
        Some(Box::new(tracing_opentelemetry::layer().with_tracer(tracer)))
    }

    /// Sends what is left.
    pub(crate) fn finish(&self) {
        if let Some(provider) = &self.provider
            && let Err(error) = provider.shutdown()
        {
            tracing::warn!(%error, "the last traces could not be sent");
        }
    }
}
