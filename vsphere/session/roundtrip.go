package session

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/vim25/soap"

	"codeconnect.vmworld.com/vmgroup/sync/metrics"
)

// callMetrics counts, times and logs the calls to vCenter, by method. It does not read a call's contents.
type callMetrics struct {
	log     zerolog.Logger
	calls   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

// newCallMetrics registers the metrics; registerer can be nil.
func newCallMetrics(log zerolog.Logger, registerer prometheus.Registerer) *callMetrics {
	return &callMetrics{log: log, calls: metrics.VCenterCalls.Counter(registerer), seconds: metrics.VCenterCallDuration.Histogram(registerer)}
}

// on returns next with its calls counted, timed and logged.
func (r *callMetrics) on(next soap.RoundTripper) soap.RoundTripper { return &roundTripper{r, next} }

type roundTripper struct {
	*callMetrics
	next soap.RoundTripper
}

// RoundTrip passes a call on, with an operationID.
func (r *roundTripper) RoundTrip(ctx context.Context, req, res soap.HasFault) error {
	ctx = WithOperationID(ctx)
	method := methodOf(req)
	r.calls.WithLabelValues(method).Inc()
	recordSecrets(ctx, req)
	ctx = context.WithValue(ctx, bodyKey{}, reflect.TypeOf(req))
	begin := time.Now()
	err := exchange(ctx, r.next, method, req, res)
	if err != nil {
		cleanFault(ctx, res)
		err = CleanError(ctx, err)
	}
	recordOf(ctx).note(method, err)
	took := time.Since(begin)
	if method != "WaitForUpdatesEx" {
		r.seconds.WithLabelValues(method).Observe(took.Seconds())
	}
	r.log.Debug().Str("method", method).Str("opID", operationID(ctx)).Dur("durationSeconds", took).Err(err).Msg("vCenter call")
	return err
}

// withTimeout bounds the wait for an answer by answerTimeout, as the HTTP transport does.
type withTimeout struct{ soap.RoundTripper }

// RoundTrip passes a call on.
func (p withTimeout) RoundTrip(ctx context.Context, req, res soap.HasFault) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return p.RoundTripper.RoundTrip(ctx, req, res)
}

// methodOf returns the name of the method: that of govmomi's body type without "Body".
func methodOf(req soap.HasFault) string {
	t := reflect.TypeOf(req)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return strings.TrimSuffix(t.Name(), "Body")
}

type bodyKey struct{}

// BodyOf returns the type of package methods of the SOAP call that a request makes; nil for a call of the REST API.
func BodyOf(req *http.Request) reflect.Type {
	body, _ := req.Context().Value(bodyKey{}).(reflect.Type)
	return body
}
