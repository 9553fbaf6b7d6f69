package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"codeconnect.vmworld.com/vmgroup/vsphere"
)

type checkSettings struct {
	settings
	templates, networks     []string
	file, namespace, output string
	deep, strict            bool
	guestTimeout            time.Duration
}

func checkCommand() *cobra.Command {
	s := &checkSettings{}
	c := &cobra.Command{
		Use:   "check [--template NAME] [-f group.yaml] [--deep]",
		Short: "Look whether the server will work with your vCenter",
		Long: `check looks at vCenter as the server would, with the same settings: the way there, its certificate,
the login, the clock, what the settings name, templates and networks, all that the groups of -f
need, and each privilege of the least role where it is needed. It changes nothing.

With --deep it shows on your vCenter what the server's safety rests on: in a scratch folder it
clones the template (twice at once, under one name, of which vCenter must refuse one), reads the
stamp back, powers the VM on, changes its size, shuts its guest down and destroys it. Folder and VM
are removed at the end, also after Ctrl-C; it does not begin unless it is sure that it can. The VM has
the disks of the template, and its networks (or those of the first group), and boots without user data.

The exit status is 0 if nothing failed, 1 if something did (with --strict also for a warning),
and 2 if the settings are wrong.`,
		Example: `  vmgroup check --simulator --deep
  VC_HOST=vc.example.com VC_USER=svc VC_PASS=… vmgroup check --template ubuntu-24.04 -f group.yaml`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := fromEnvironment(c); err != nil {
				return err
			}
			log := zerolog.Nop() // the findings say it all, and better
			if c.Flags().Changed("log-level") {
				var err error
				if log, err = s.logger(c.ErrOrStderr()); err != nil {
					return err
				}
			}
			ctx := c.Context()
			if s.deep {
				signal.Ignore(syscall.SIGPIPE) // the write then fails, which ends the check in good order: see deserted
				if !signal.Ignored(syscall.SIGHUP) {
					var stop context.CancelFunc
					ctx, stop = signal.NotifyContext(ctx, syscall.SIGHUP) // the terminal was closed
					defer stop()
				}
			}
			return s.run(ctx, log, c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringArrayVarP(&s.templates, "template", "t", nil, "template to look at, by name or inventory path; repeat it for several")
	f.StringArrayVar(&s.networks, "network", nil, "network to look at, by name or inventory path; repeat it for several")
	f.StringVarP(&s.file, "file", "f", "", "file of VmGroup manifests, whose needs are looked at; - for standard input")
	_ = c.MarkFlagFilename("file", "yaml", "yml", "json")
	f.StringVarP(&s.namespace, "namespace", "n", "default", "namespace of manifests that have none")
	f.BoolVar(&s.deep, "deep", false, "make a folder and a VM, try what the server relies on, and remove them again")
	f.DurationVar(&s.guestTimeout, "guest-timeout", 3*time.Minute, "with --deep: how long a guest may take to boot, and to shut down")
	f.BoolVar(&s.strict, "strict", false, "take warnings for failures")
	f.StringVarP(&s.output, "output", "o", "table", "table or json")
	complete(c, "output", "table", "json")
	s.settings.flags(c)
	return c
}

func (s *checkSettings) run(ctx context.Context, log zerolog.Logger, in io.Reader, out, progress io.Writer) error {
	switch {
	case s.output != "table" && s.output != "json":
		return usageError{fmt.Errorf("--output %q: it may be table or json", s.output)}
	case s.guestTimeout <= 0:
		return usageError{fmt.Errorf("--guest-timeout %s: it must be longer than nothing", s.guestTimeout)}
	}
	o := vsphere.CheckOptions{Templates: s.templates, Networks: s.networks, Deep: s.deep, GuestPatience: s.guestTimeout}
	if s.file != "" {
		groups, err := (&planSettings{file: s.file, namespace: s.namespace}).read(in)
		if err != nil {
			return usageError{err}
		}
		o.Groups = groups
	}
	vc, closeSimulator, err := s.connect(log)
	if err != nil {
		return err
	}
	defer closeSimulator()
	if s.simulator && len(o.Templates)+len(o.Groups) == 0 {
		o.Templates = s.sim.Templates[:1]
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	table := newFindings(out)
	table.w = deserted{out, stop}
	if s.output == "table" {
		o.Found = table.write
		o.Progress = func(text string) { fmt.Fprintln(progress, "…", text) }
		table.begin()
	}
	found := vc.Check(ctx, o)
	if s.output == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		if err := e.Encode(found); err != nil {
			return err
		}
	}
	return s.verdict(ctx, found, table)
}

// verdict makes the exit status of the findings.
func (s *checkSettings) verdict(ctx context.Context, found []vsphere.Finding, table *findings) error {
	count := map[vsphere.CheckResult]int{}
	for _, f := range found {
		count[f.Result]++
	}
	if s.output == "table" {
		table.end(count)
	}
	switch failed, warned := count[vsphere.CheckFail], count[vsphere.CheckWarn]; {
	case ctx.Err() != nil:
		return fmt.Errorf("check: it was stopped")
	case failed > 0:
		return fmt.Errorf("check: %d of %d failed", failed, len(found))
	case warned > 0 && s.strict:
		return fmt.Errorf("check: %d of %d are warnings (--strict)", warned, len(found))
	}
	return nil
}

// deserted tells that nobody reads the findings any more: what was made has to be removed then, too.
type deserted struct {
	io.Writer
	tell context.CancelFunc
}

func (d deserted) Write(p []byte) (int, error) {
	n, err := d.Writer.Write(p)
	if err != nil {
		d.tell()
	}
	return n, err
}

// colourful tells whether results may be coloured.
func colourful(w io.Writer) bool { return os.Getenv("NO_COLOR") == "" && terminal(w) }
