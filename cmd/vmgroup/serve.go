package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
)

type serveSettings struct {
	settings
	listen        string
	slots         int
	lease, resync time.Duration
}

func serveCommand() *cobra.Command {
	s := &serveSettings{}
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve Metacontroller's hooks",
		Long: `serve answers POST /sync, /finalize, /customize and /plan, and GET /groups (what it knows of
the groups), /sd (Prometheus' HTTP service discovery), /healthz, /readyz and /metrics. It needs
no rights in Kubernetes: Metacontroller brings everything.`,
		Example: `  vmgroup serve --simulator --log-format console
  VC_HOST=vc.example.com VC_USER=svc VC_PASS=… vmgroup serve --datacenter DC1 --pool cluster-1`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := fromEnvironment(c); err != nil {
				return err
			}
			return s.run(c.Context())
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&s.listen, "listen", "127.0.0.1:8080", "address of the hooks, /groups, /sd, health and metrics")
	env(f, "listen", "VMGROUP_LISTEN")
	f.IntVar(&s.slots, "slots", 8, "vCenter tasks at once, 1 to 256 (one more is kept for groups that have none)")
	env(f, "slots", "VMGROUP_SLOTS")
	f.DurationVar(&s.resync, "resync", 30*time.Second, "how often Metacontroller is asked to call for a settled group, 5s to 10m")
	env(f, "resync", "VMGROUP_RESYNC")
	f.DurationVar(&s.lease, "lease", 90*time.Second, "how long a hook call permits acting for its group; at least twice --resync")
	env(f, "lease", "VMGROUP_LEASE")
	s.settings.flags(c)
	return c
}

func (s *serveSettings) check() error {
	switch {
	case s.slots < 1 || s.slots > 256:
		return usageError{fmt.Errorf("--slots %d: it may be 1 to 256", s.slots)}
	case s.resync < 5*time.Second || s.resync > 10*time.Minute:
		return usageError{fmt.Errorf("--resync %s: it may be 5s to 10m", s.resync)}
	case s.lease < 2*s.resync:
		return usageError{fmt.Errorf("--lease %s: it must be at least twice --resync (%s), or acting stops between two calls", s.lease, s.resync)}
	}
	return nil
}

// Limits of one HTTP exchange. A slow client is cut off; Metacontroller gives up after 10 s itself.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 15 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	stopTimeout   = 8 * time.Second // for the hooks that run when the process is told to stop
	readyAnyway   = 30 * time.Second
)

func (s *serveSettings) run(ctx context.Context) error {
	if err := s.check(); err != nil {
		return err
	}
	log, err := s.logger(os.Stderr)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		return usageError{fmt.Errorf("--listen %s: %w", s.listen, err)}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	var groups *loop.Loop
	s.vcenter.Metrics = registry
	s.vcenter.Changed = func(uid types.UID) { groups.Changed(uid) }
	vc, closeSimulator, err := s.connect(log)
	if err != nil {
		_ = listener.Close()
		return err
	}
	defer closeSimulator()
	groups = loop.New(loop.Config{Slots: s.slots, Lease: s.lease, Resync: s.resync, Log: log, Metrics: registry}, vc)

	began := time.Now()
	server := &http.Server{
		Handler: hook.New(hook.Config{
			Keeper: groups, Roster: vc.Roster, Log: log, Meter: registry, Metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
			Ready: func() error {
				if vc.WasRead() || time.Since(began) > readyAnyway { // with vCenter down the hooks must answer all the same
					return nil
				}
				return errors.New("vCenter's inventory has not been read yet")
			},
		}),
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: 64 << 10,
	}

	// The order of stopping: no new action; running hooks are answered; the session is logged out last.
	vcContext, stopVC := context.WithCancel(context.WithoutCancel(ctx))
	var vcDone, loopDone sync.WaitGroup
	var vcErr error
	vcDone.Go(func() { vcErr = vc.Run(vcContext) })
	loopDone.Go(func() { groups.Run(ctx) })
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	log.Info().Str("listen", listener.Addr().String()).Str("version", version).Int("slots", s.slots).Msg("serving hooks")

	select {
	case <-ctx.Done():
		log.Info().Msg("stopping: no new action; running tasks are left to vCenter")
		stopContext, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err = server.Shutdown(stopContext)
		loopDone.Wait()
	case err = <-failed:
	}
	stopVC()
	vcDone.Wait()
	log.Info().Msg("stopped")
	return errors.Join(err, vcErr)
}
