module blocks

go 1.22

require go.opentelemetry.io/otel/sdk v0.0.0

replace go.opentelemetry.io/otel/sdk => ./sdk
