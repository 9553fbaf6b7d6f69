// Command vmgroup serves vSphere VM groups to Metacontroller. This package only connects the parts: flags, signals, logging and
// listeners. It parses and checks every setting once, and passes it on.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	_ "time/tzdata" // for update.windows: the image has no time zones

	"github.com/spf13/cobra"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

func main() {
	if status := execute(); status != 0 {
		os.Exit(status)
	}
}

// execute runs a command, and returns the exit status.
func execute() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	errs := newBacklog(os.Stderr)
	defer errs.close() // also before a panic is printed
	c, err := command(errs).ExecuteContextC(ctx)
	if status := exitStatus(0); errors.As(err, &status) {
		return int(status)
	}
	if err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") { // an error may quote vCenter or the server
			fmt.Fprintln(errs, "vmgroup:", plan.Printable(line))
		}
		return exitCode(c.Name(), err)
	}
	return 0
}

// usageError is a mistake in the command line or the environment; the exit status is 2, as for other Unix tools.
type usageError struct{ error }

// exitStatus is an outcome that has been reported, and is not an error in itself.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// exitCode is the exit status after an error. For plan, 2 has another meaning.
func exitCode(command string, err error) int {
	if usage := (usageError{}); errors.As(err, &usage) && command != "plan" {
		return 2
	}
	return 1
}

// command returns the command line. The server writes its log to log.
func command(log *backlog) *cobra.Command {
	root := &cobra.Command{
		Use:   "vmgroup",
		Short: "vSphere VM groups as Kubernetes objects",
		Long: `vmgroup answers Metacontroller's hooks for VmGroup objects, and creates, heals, scales and
removes their virtual machines in vCenter.

Try it without a vCenter:   vmgroup demo
Preview a change:           vmgroup plan -f group.yaml --server http://127.0.0.1:8080
Check your vCenter:         vmgroup check --template NAME

Every flag has an environment variable, which its help names; a flag wins over its variable.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       versionLine(),
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			var names []string
			for _, known := range c.Commands() {
				names = append(names, known.Name())
			}
			return usageError{fmt.Errorf("unknown command %q%s", args[0], cmp.Or(didYouMean(args[0], "", names), " (vmgroup --help lists them)"))}
		},
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return fromEnvironment(c) },
	}
	root.SetFlagErrorFunc(flagError)
	root.SetVersionTemplate("{{.Version}}\n")
	for _, c := range []*cobra.Command{serveCommand(log), planCommand(), checkCommand(), demoCommand()} {
		c.SetUsageFunc(usage)
		root.AddCommand(c)
	}
	root.AddCommand(versionCommand())
	return root
}
