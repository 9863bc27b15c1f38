// SPDX-License-Identifier: MIT OR Apache-2.0

// Requests in goroutines, with OpenTelemetry's own SDK and a log of the request that each goroutine worked for.
//
//	joins FOLDER
//
//	goroutine  each request has a goroutine of its own, and a part that is a span of its own
//	pool       a goroutine takes requests and hands each to one of two workers through a channel; the span begins in the first, and
//	           has the time at which it was queued (`wakepath.queued_ns`)
//	mutex      two goroutines serve requests, each with a lock for a part of it
//	busy       a goroutine serves forty requests between two sleeps
//
// FOLDER/log has a line `gGOROUTINE FROM SHOWN LEAVES LEFT TRACE` for each stretch of work, by the monotonic clock, ns: the goroutine takes
// the request up between FROM and SHOWN, and leaves it between LEAVES and LEFT. A goroutine is named and no thread: which thread runs it
// at each moment is known to Go's scheduler alone, and to pin it to a thread would change what is measured. FOLDER/spans.json has the spans in OTLP.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	requests = 100
	workers  = 2
	served   = 40
)

// Keeps the spans that have ended.
type kept struct {
	lock  sync.Mutex
	spans []sdk.ReadOnlySpan
}

func (k *kept) OnStart(context.Context, sdk.ReadWriteSpan) {}
func (k *kept) OnEnd(span sdk.ReadOnlySpan) {
	k.lock.Lock()
	k.spans = append(k.spans, span)
	k.lock.Unlock()
}
func (k *kept) Shutdown(context.Context) error   { return nil }
func (k *kept) ForceFlush(context.Context) error { return nil }

var (
	spans  = &kept{}
	tracer = sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer("joins")
	server = trace.WithSpanKind(trace.SpanKindServer)

	lines sync.Mutex
	log   strings.Builder
)

func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}

// The number of the goroutine that calls it, which Go says in the text of a stack alone.
func goroutine() string {
	text := make([]byte, 64)
	fields := bytes.Fields(text[:runtime.Stack(text, false)])
	return "g" + string(fields[1])
}

func busy(length time.Duration) {
	for end := now() + int64(length); now() < end; {
	}
}

// The times of a stretch of work up to where it is left.
type stretch struct{ from, shown, leaves int64 }

// The goroutine has left a span: call it directly behind that.
func (s stretch) note(goroutine string, span trace.Span) {
	s.noteLeft(goroutine, span, now())
}

// The goroutine had left a span by then.
func (s stretch) noteLeft(goroutine string, span trace.Span, left int64) {
	line := fmt.Sprintln(goroutine, s.from, s.shown, s.leaves, left, span.SpanContext().TraceID())
	lines.Lock()
	log.WriteString(line)
	lines.Unlock()
}

// Serves a request from its beginning to its end.
func serve(goroutine, name string, work func(context.Context)) {
	s := stretch{from: now()}
	ctx, span := tracer.Start(context.Background(), name, server)
	s.shown = now()
	work(ctx)
	s.leaves = now()
	span.End()
	s.note(goroutine, span)
}

// One request at a time in each of two goroutines that are its own.
func own() {
	for range requests / workers {
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				serve(goroutine(), "goroutine", func(ctx context.Context) {
					busy(200 * time.Microsecond)
					time.Sleep(400 * time.Microsecond)
					_, part := tracer.Start(ctx, "part")
					busy(100 * time.Microsecond)
					time.Sleep(200 * time.Microsecond)
					part.End()
					busy(50 * time.Microsecond)
				})
			})
		}
		all.Wait()
	}
}

type handed struct {
	ctx  context.Context
	span trace.Span
}

func pool() {
	queue := make(chan handed, requests)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			number := goroutine()
			for work := range queue {
				s := stretch{from: now()}
				_, part := tracer.Start(work.ctx, "part")
				s.shown = now()
				busy(200 * time.Microsecond)
				time.Sleep(400 * time.Microsecond)
				busy(100 * time.Microsecond)
				s.leaves = now()
				part.End()
				work.span.End()
				s.note(number, work.span)
			}
		})
	}
	number := goroutine()
	for range requests {
		s := stretch{from: now()}
		ctx, span := tracer.Start(context.Background(), "pool", server)
		s.shown = now()
		busy(50 * time.Microsecond)
		s.leaves = now()
		span.SetAttributes(attribute.Int64("wakepath.queued_ns", time.Now().UnixNano()))
		left := now()
		queue <- handed{ctx, span}
		s.noteLeft(number, span, left)
		time.Sleep(900 * time.Microsecond)
	}
	close(queue)
	all.Wait()
}

func mutex() {
	var all sync.WaitGroup
	var lock sync.Mutex
	for range workers {
		all.Go(func() {
			number := goroutine()
			for range requests / workers {
				serve(number, "mutex", func(context.Context) {
					busy(50 * time.Microsecond)
					lock.Lock()
					busy(50 * time.Microsecond)
					time.Sleep(500 * time.Microsecond)
					lock.Unlock()
					busy(50 * time.Microsecond)
				})
				time.Sleep(300 * time.Microsecond)
			}
		})
	}
	all.Wait()
}

func loop() {
	number := goroutine()
	for range requests / 4 {
		for range served {
			// To begin a span takes 2 µs where a probe sees it: the request is much longer.
			serve(number, "busy", func(context.Context) { busy(300 * time.Microsecond) })
		}
		time.Sleep(500 * time.Microsecond)
	}
}

func document() ([]byte, error) {
	type object = map[string]any
	number := func(key string, value int64) object {
		return object{"key": key, "value": object{"intValue": fmt.Sprint(value)}}
	}
	made := []object{}
	for _, span := range spans.spans {
		ids := span.SpanContext()
		attributes := []object{}
		for _, one := range span.Attributes() {
			attributes = append(attributes, number(string(one.Key), one.Value.AsInt64()))
		}
		one := object{
			"traceId": ids.TraceID().String(), "spanId": ids.SpanID().String(), "name": span.Name(),
			"kind":              int(span.SpanKind()),
			"startTimeUnixNano": fmt.Sprint(span.StartTime().UnixNano()),
			"endTimeUnixNano":   fmt.Sprint(span.EndTime().UnixNano()),
			"attributes":        attributes,
		}
		if span.Parent().IsValid() {
			one["parentSpanId"] = span.Parent().SpanID().String()
		}
		made = append(made, one)
	}
	service := object{"key": "service.name", "value": object{"stringValue": "joins"}}
	resource := object{"attributes": []object{service, number("process.pid", int64(os.Getpid()))}}
	scopes := []object{{"spans": made}}
	return json.Marshal(object{"resourceSpans": []object{{"resource": resource, "scopeSpans": scopes}}})
}

func main() {
	folder := os.Args[1]
	// The recorder finds the program within 20 ms.
	time.Sleep(200 * time.Millisecond)
	for _, part := range []func(){own, pool, mutex, loop} {
		var done sync.WaitGroup
		done.Go(part)
		done.Wait()
	}
	time.Sleep(50 * time.Millisecond)
	text, err := document()
	if err == nil {
		err = os.WriteFile(folder+"/spans.json", text, 0o644)
	}
	if err == nil {
		err = os.WriteFile(folder+"/log", []byte(log.String()), 0o644)
	}
	if err != nil {
		panic(err)
	}
}
