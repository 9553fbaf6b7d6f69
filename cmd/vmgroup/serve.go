package main

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/hook/guard"
	"codeconnect.vmworld.com/vmgroup/sync/limiter"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metrics"
	"codeconnect.vmworld.com/vmgroup/sync/page"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/probe"
	"codeconnect.vmworld.com/vmgroup/vsphere"
)

type serveSettings struct {
	settings
	listeners     listeners
	slots         int
	lease, resync time.Duration
	groupMetrics  bool
	events        bool
	childLabels   []string
}

func serveCommand(errs *backlog) *cobra.Command {
	s := &serveSettings{}
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve Metacontroller's hooks",
		Long: `serve answers POST /sync, /finalize, /customize and /plan, GET / (a page for
browsers), GET /groups (the state of all groups) and GET /sd (HTTP service discovery for
Prometheus). /healthz, /readyz and /metrics have an address of their own. The server needs no rights in Kubernetes: Metacontroller sends everything.

Anyone who calls the hooks can create and destroy VMs. On an address that others can reach, the server
therefore requires TLS, and a token or certificates from its callers, unless a flag allows otherwise.`,
		Example: `  vmgroup serve --simulator --log-format console
  VC_HOST=vc.example.com VC_USER=svc VC_PASS=… vmgroup serve --datacenter DC1 --pool cluster-1
  vmgroup serve --listen :8443 --tls-cert-file tls.crt --tls-private-key-file tls.key --token-file token`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := refuseEmptyFiles(c); err != nil {
				return err
			}
			log, err := s.logger(errs)
			if err != nil {
				return err
			}
			registry := newRegistry()
			s.keepWriting(errs, log, registry)
			return s.run(c.Context(), log, registry, func(open *opened) { s.announce(log, open) })
		},
	}
	f := c.Flags()
	f.SortFlags = false
	s.listeners.flags(c)
	f.IntVar(&s.slots, "slots", 32, fmt.Sprintf("maximum concurrent vCenter tasks, 1 to 640; the server starts at %d of each kind and adapts", limiter.Begin))
	f.DurationVar(&s.resync, "resync", 45*time.Second, "longest interval between calls for a settled group, 5s to 10m")
	f.DurationVar(&s.lease, "lease", 90*time.Second, "how long after a hook call the server can act for the group; at least twice --resync")
	f.BoolVar(&s.groupMetrics, "group-metrics", true, "expose metrics of each group (replicas desired, ready, available); with thousands of groups, they can be too many for Prometheus")
	f.BoolVar(&s.events, "events", true, "create Kubernetes Events on the groups; Metacontroller creates them, and needs permission for that")
	f.StringSliceVar(&s.childLabels, "child-labels", nil, "`team,example.com/*`: labels that a group's ConfigMap, Service and EndpointSlices take from the group, for policies that ask for them; repeat the flag, or separate several with commas (default: none)")
	section(f, "How the server works")
	s.settings.flags(c)
	return c
}

func (s *serveSettings) check() error {
	switch {
	case s.slots < 1 || s.slots > 640:
		return usageError{fmt.Errorf("--slots %d: must be 1 to 640", s.slots)}
	case s.resync < 5*time.Second || s.resync > 10*time.Minute:
		return usageError{fmt.Errorf("--resync %s: must be 5s to 10m", s.resync)}
	case s.lease < 2*s.resync:
		return usageError{fmt.Errorf("--lease %s: must be at least twice --resync (%s), or the server stops acting between two calls", s.lease, s.resync)}
	}
	return nil
}

// readyAnyway is the time after which the server is ready without vCenter's inventory.
const readyAnyway = 30 * time.Second

// keepWriting sends everything that this process writes to standard error through errs, so that a slow or missing reader can neither stop
// nor end the server: errs drops and counts lines that it has no room for, or that have no reader any more (SIGPIPE would end the process).
func (s *serveSettings) keepWriting(errs *backlog, log zerolog.Logger, registry *prometheus.Registry) {
	signal.Ignore(syscall.SIGPIPE)
	direct, _ := s.logger(errs.to) // can't fail: the same settings were accepted for log
	errs.count(metrics.LogLinesDropped.Counter(registry).WithLabelValues(), func(lines int) {
		direct.Error().Int("lines", lines).Msg("log lines were dropped: standard error was not read for a while, and 1 MiB of lines was waiting")
	})
	others := otherLines{log, zerolog.WarnLevel} // for net/http's clients and the Kubernetes libraries
	stdlog.SetFlags(0)
	stdlog.SetOutput(others)
	klog.LogToStderr(false)
	klog.SetOutput(others)
}

// run serves until ctx ends. It calls serving once it listens.
func (s *serveSettings) run(ctx context.Context, log zerolog.Logger, registry *prometheus.Registry, serving func(*opened)) error {
	if err := s.check(); err != nil {
		return err
	}
	childLabels, err := plan.ParseLabelKeys(s.childLabels)
	if err != nil {
		return usageError{fmt.Errorf("--child-labels (VMGROUP_CHILD_LABELS): %w", err)}
	}
	var pages *page.Page
	s.listeners.guard.Browser = &guard.Browser{Covers: page.Covers, Open: page.IsAsset, SignIn: page.SignIn, SignOut: page.SignOut,
		Form: func(w http.ResponseWriter, r *http.Request, denied bool) { pages.AskToken(w, r, denied) }}
	open, err := s.listeners.open(log, registry)
	if err != nil {
		return err
	}

	var groups *loop.Loop
	s.vcenter.Metrics = registry
	s.vcenter.Changed = func(uid types.UID) { groups.Changed(uid) }
	s.vcenter.Leased = func(uid types.UID, vm string) bool { return groups.Leased(uid, vm) }
	s.simulatorForAll = s.listeners.allowUnauthenticated
	vc, closeSimulator, err := s.connect(log)
	if err != nil {
		open.close()
		return err
	}
	defer closeSimulator()
	s.probe.Metrics, s.probe.Changed = registry, func(uid types.UID) { groups.Changed(uid) }
	prober := probe.New(s.probe)
	groups = loop.New(loop.Config{Slots: s.slots, Lease: s.lease, Resync: s.resync, Log: log, Metrics: registry, GroupMetrics: s.groupMetrics, Events: s.events, ChildLabels: childLabels, Who: vc.Who, Prober: prober}, vc)

	pod, _ := os.Hostname() // a page without it is still a page
	pages = page.New(page.Config{Source: facts{groups, vc}, Next: groups.NextSteps, VCenter: s.vcenter.Address(), Version: version, Pod: pod, Names: open.guard.Names, SignedIn: open.guard.SignedIn})
	handlers := hook.Config{
		Controller: groups, Preflight: vc, ListGroups: vc.ListGroups, Slots: groups.Slots, Page: pages, Log: log, Meter: registry, Metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
		Ready: readiness(open, vc),
	}

	// On shutdown the server starts no new action, answers running hooks, and logs out of vCenter last.
	vcContext, stopVC := context.WithCancel(context.WithoutCancel(ctx))
	var vcDone, loopDone sync.WaitGroup
	var vcErr error
	vcDone.Go(func() { vcErr = vc.Run(vcContext) })
	loopDone.Go(func() { groups.Run(ctx) })
	loopDone.Go(func() { prober.Run(ctx) })
	failed := make(chan error, 1)
	servers := open.serve(hook.New(handlers), hook.Health(handlers), log, failed)
	serving(open)

	select {
	case <-ctx.Done():
		log.Info().Msg("stopping: starting no new action; vCenter finishes running tasks")
		err = shutDown(ctx, servers, &open.clients)
		loopDone.Wait()
	case err = <-failed:
	}
	stopVC()
	vcDone.Wait()
	log.Info().Msg("stopped")
	return errors.Join(err, vcErr)
}

// facts provides what the page shows.
type facts struct {
	*loop.Loop
	*vsphere.VCenter
}

// Groups lists the reports of all groups.
func (f facts) Groups() ([]plan.Report, bool) {
	listed, known := f.ListGroups()
	return plan.AllReports(f.Loop.Groups(), listed, known), known
}

// newRegistry returns a registry with the metrics of the process itself.
func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	metrics.BuildInfo.Gauge(registry, func(set func(float64, ...string)) { set(1, version, runtime.Version()) })
	return registry
}

// readiness reports why the server is not ready yet.
func readiness(open *opened, vc *vsphere.VCenter) func() error {
	began := time.Now()
	return func() error {
		if err := open.guard.Ready(); err != nil {
			return err
		}
		if vc.WasRead() || time.Since(began) > readyAnyway { // with vCenter down the hooks must still answer
			return nil
		}
		return errors.New("vCenter's inventory has not been read yet")
	}
}

// announce logs the addresses of the server.
func (s *serveSettings) announce(log zerolog.Logger, open *opened) {
	line := log.Info().Str("listen", open.hooks.Addr().String()).Bool("tls", open.guard.Encrypts()).Bool("authentication", open.guard.Authenticates())
	if open.health != nil {
		line = line.Str("health_listen", open.health.Addr().String())
	}
	line.Str("version", version).Int("slots", s.slots).Msg("serving hooks")
}
