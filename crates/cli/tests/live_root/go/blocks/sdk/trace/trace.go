// Package trace begins spans as OpenTelemetry's SDK does, as far as a probe sees it: the same function name and arguments.
// Without it the test would need the network.
package trace

import "context"

// SpanContext has the layout of go.opentelemetry.io/otel/trace.SpanContext.
type SpanContext struct {
	TraceID [16]byte
	SpanID  [8]byte
	Flags   byte
	State   []struct{ Key, Value string }
	Remote  bool
}

type tracer struct{ begun int }

var one tracer

// Begin begins a span.
func Begin(ctx context.Context, parent, span SpanContext, name string) {
	one.newRecordingSpan(ctx, parent, span, name)
}

//go:noinline
func (t *tracer) newRecordingSpan(ctx context.Context, psc, sc SpanContext, name string) {
	grown(psc, sc)
	_, _ = ctx, name
}

//go:noinline
func grown(psc, sc SpanContext) byte {
	var room [256]byte
	room[psc.TraceID[0]] = sc.SpanID[0]
	return room[sc.TraceID[1]]
}
