package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/secret"
	"codeconnect.vmworld.com/vmgroup/vsphere/check"
)

type checkSettings struct {
	settings
	templates, networks []string
	manifests
	output       string
	hidden       string
	record       string
	deep, strict bool
	drs          bool
	orphans      bool
	guestTimeout time.Duration
}

func checkCommand() *cobra.Command {
	s := &checkSettings{}
	c := &cobra.Command{
		Use:   "check [--template NAME] [-f group.yaml] [--deep]",
		Short: "Check whether the server works with your vCenter",
		Long: `check uses the server's settings to look at vCenter: its address, certificate, login and clock,
everything that the settings name, templates and networks, everything that the groups of -f
need, and each privilege of the least role where it is needed. It changes nothing.

With --deep it tests the behavior of your vCenter that the server relies on. In a new folder it creates two VMs
from the first template (twice in parallel under one name; vCenter must refuse the second), a copy of
one of them, and a first-class disk of 1 GiB. It reads the stamp back, powers one VM on, resets it,
shuts its guest down, unregisters it, registers it again, and destroys it. That VM has the disks and the
networks of the template (or the networks of the first group of -f), and boots without user data. The
check reports what it can't try, and why. At the end, and after Ctrl-C, it removes all of this and nothing
else; it doesn't begin unless its account can do that.

With --record it also records its calls to vCenter and the answers. Much of the behavior that the server relies on has
not been tested on a real vCenter: the recording shows how yours behaves. It has no names, addresses, paths, notes,
accounts or secrets, only stand-ins for them. Read it before you attach it to an issue.

With --orphans it lists VMs, persistent disks, folders, DRS rules and deployed templates of the server that belong to
no VmGroup of -f, and what to do about each. It removes nothing. Give it all VmGroups:
  kubectl get vmgroups -A -o yaml | vmgroup check --orphans -f -

-o json prints a report that you can send to others: it contains no names, addresses, paths or secrets.

The exit status is 0 if nothing failed, 1 if something failed (with --strict also for a warning),
and 2 if the settings are wrong.`,
		Example: `  vmgroup check --simulator --deep --record vcenter.txt
  VC_HOST=vc.example.com VC_USER=svc VC_PASS=… vmgroup check --template ubuntu-24.04 -f group.yaml`,
		RunE: func(c *cobra.Command, _ []string) error {
			log := zerolog.Nop() // the findings are the output
			if c.Flags().Changed("log-level") {
				var err error
				if log, err = s.logger(c.ErrOrStderr()); err != nil {
					return err
				}
			}
			ctx := c.Context()
			if s.deep {
				signal.Ignore(syscall.SIGPIPE) // so that the write fails instead, which stops the check: see stoppingWriter
				if !signal.Ignored(syscall.SIGHUP) {
					var stop context.CancelFunc
					ctx, stop = signal.NotifyContext(ctx, syscall.SIGHUP) // the terminal is closed
					defer stop()
				}
			}
			return s.run(ctx, log, c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringArrayVarP(&s.templates, "template", "t", nil, "template to check, by name or inventory path; repeat the flag for several")
	f.StringArrayVar(&s.networks, "network", nil, "network to check, by name or inventory path; repeat the flag for several")
	s.manifests.flags(c, "file with VmGroup manifests, to check what they need")
	f.BoolVar(&s.orphans, "orphans", false, "list VMs, disks, folders, DRS rules and deployed templates that belong to no VmGroup of -f (give it all VmGroups)")
	f.BoolVar(&s.deep, "deep", false, "test the behavior of vCenter that the server relies on, with two VMs, a copy of one and a first-class disk in a new folder, and remove them")
	f.StringVar(&s.hidden, "hidden", "", "with --deep: moRef of a VM that the account is not allowed to see, such as vm-42, to test how vCenter refuses it")
	f.BoolVar(&s.drs, "drs", false, "with --deep: also add DRS groups and rules of two VMs to the configuration of the cluster, and remove them")
	f.DurationVar(&s.guestTimeout, "guest-timeout", time.Minute, "with --deep: how long a guest can take to boot and to shut down")
	f.StringVar(&s.record, "record", "", "with --deep: file to create, with the calls to vCenter and its answers, without the names, addresses and other texts of your vCenter; for an issue")
	f.BoolVar(&s.strict, "strict", false, "treat warnings as failures")
	f.StringVarP(&s.output, "output", "o", "table", "table or json")
	complete(c, "output", "table", "json")
	section(f, "Check")
	s.settings.flags(c)
	return c
}

func (s *checkSettings) run(ctx context.Context, log zerolog.Logger, in io.Reader, out, progress io.Writer) error {
	o, err := s.options(in, progress)
	if err != nil {
		return usageError{err}
	}
	record, recorder, err := s.recordTo()
	if err != nil {
		return usageError{err}
	}
	vc, closeSimulator, err := s.connect(log)
	if err != nil {
		return err
	}
	defer closeSimulator()
	if recorder != nil {
		o.Begin = recorder.Section
	}
	if len(s.probe.Networks.Allowed) > 0 {
		o.CanProbe = s.probe.Networks.Allow
	}
	if s.simulator && len(o.Templates)+len(o.Groups) == 0 {
		o.Templates = s.sim.Templates[:1]
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	table := newFindings(out)
	out = secret.Writer{Writer: out}
	table.w = stoppingWriter{out, stop}
	if s.output == "table" {
		o.Found = table.write
		o.Progress = func(text string) { fmt.Fprintln(progress, "…", text) }
		table.begin()
	}
	found := check.Run(ctx, vc, o)
	if err := s.recorded(record, recorder, progress); err != nil {
		return err
	}
	if s.output == "json" {
		if err := writeJSON(out, check.Report(found)); err != nil {
			return err
		}
	}
	return s.result(ctx, found, table)
}

// recordTo creates the file of --record, if the flag is set.
func (s *checkSettings) recordTo() (*os.File, *check.Recorder, error) {
	switch {
	case s.record == "":
		return nil, nil, nil
	case !s.deep:
		return nil, nil, errors.New("--record: needs --deep, whose experiments it records")
	}
	file, err := os.OpenFile(s.record, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, nil, fmt.Errorf("--record %s: the file exists; name another", s.record)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("--record: %w", err)
	}
	recorder := check.NewRecorder(file)
	s.vcenter.Wire = recorder.Wire
	return file, recorder, nil
}

// recorded closes the file of --record, and says what to do with it.
func (s *checkSettings) recorded(file *os.File, recorder *check.Recorder, progress io.Writer) error {
	if file == nil {
		if s.deep && s.output == "table" {
			fmt.Fprintln(progress, "… with --record FILE, this check also records vCenter's answers, without its names and other texts, for an issue")
		}
		return nil
	}
	if err := errors.Join(recorder.Err(), file.Close()); err != nil {
		return fmt.Errorf("--record: %w", err)
	}
	fmt.Fprintf(progress, "… recorded in %s: read it, and attach it to an issue: it shows the developers how your vCenter behaves\n", s.record)
	return nil
}

// options returns what to check. Its errors are about the command's flags and files.
func (s *checkSettings) options(in io.Reader, progress io.Writer) (check.Options, error) {
	o := check.Options{Templates: s.templates, Networks: s.networks, Deep: s.deep, DRS: s.drs, Hidden: s.hidden, GuestTimeout: s.guestTimeout}
	switch {
	case s.output != "table" && s.output != "json":
		return o, fmt.Errorf("--output %q: must be table or json", s.output)
	case s.orphans && len(s.files) == 0:
		return o, errors.New("--orphans: give it all VmGroups: kubectl get vmgroups -A -o yaml | vmgroup check --orphans -f -")
	case s.guestTimeout <= 0:
		return o, fmt.Errorf("--guest-timeout %s: must be positive", s.guestTimeout)
	}
	var data []*other
	s.none = s.orphans
	groups, err := s.read(in, func(o *other) {
		if o.holdsData() {
			data = append(data, o)
		} else {
			fmt.Fprintln(progress, "…", plan.Printable(o.note()))
		}
	})
	if err != nil {
		return o, err
	}
	userData := make(map[*v1alpha1.VmGroup]plan.Related, len(groups))
	for _, g := range groups {
		related, err := s.related(g, data)
		if err == nil {
			userData[g], err = hook.UserData(g, related)
		}
		if err != nil {
			return o, err
		}
	}
	if s.orphans {
		o.Orphans, o.Existing, groups = true, groups, nil
	}
	o.Groups, o.UserData = groups, func(g *v1alpha1.VmGroup) plan.Related { return userData[g] }
	return o, nil
}

// result turns the findings into the command's error.
func (s *checkSettings) result(ctx context.Context, found []check.Finding, table *findings) error {
	count := map[check.Result]int{}
	for _, f := range found {
		count[f.Result]++
	}
	if s.output == "table" {
		table.end(count)
	}
	switch failed, warned := count[check.Fail], count[check.Warn]; {
	case ctx.Err() != nil:
		return fmt.Errorf("check: stopped")
	case failed > 0:
		return fmt.Errorf("check: %d of %d failed", failed, len(found))
	case warned > 0 && s.strict:
		return fmt.Errorf("check: %d of %d are warnings (--strict)", warned, len(found))
	}
	return nil
}

// stoppingWriter stops the check when its output has no reader any more, so that the check removes what it created.
type stoppingWriter struct {
	io.Writer
	stop context.CancelFunc
}

func (w stoppingWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		w.stop()
	}
	return n, err
}

// colorful reports whether results can be colored.
func colorful(w io.Writer) bool { return os.Getenv("NO_COLOR") == "" && isTerminal(w) }
