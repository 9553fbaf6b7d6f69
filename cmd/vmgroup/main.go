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
	"slices"
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
	defer errs.close() // also runs before a panic is printed
	root := command(errs)
	if isPlugin(os.Args[0]) {
		root = pluginCommand()
	}
	c, err := runCommand(ctx, root)
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

// runCommand runs the command that the arguments name. cobra shows the help of the root for an unknown command with --help: that is an error, too.
func runCommand(ctx context.Context, root *cobra.Command) (*cobra.Command, error) {
	var unknown error
	root.InitDefaultCompletionCmd()
	prepareCompletions(root)
	if c, _, err := root.Find([]string{"completion"}); err == nil && c != root {
		c.Args = cobra.ArbitraryArgs
		c.RunE = func(c *cobra.Command, args []string) error { // without this, cobra shows the help for any shell, and succeeds
			if len(args) > 0 {
				return unknownCommand(c, args[0])
			}
			return c.Help()
		}
	}
	show := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if first := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") }); c == root && first >= 0 && args[first] != "help" {
			unknown = unknownCommand(root, args[first])
			return
		}
		show(c, args)
	})
	c, err := root.ExecuteContextC(ctx)
	return c, cmp.Or(err, unknown)
}

func unknownCommand(root *cobra.Command, name string) error {
	var names []string
	for _, known := range root.Commands() {
		names = append(names, known.Name())
	}
	question := didYouMean(name, "", names)
	if of := root.CommandPath(); question == "" {
		question = fmt.Sprintf(" (%s --help lists them)", of)
		if isPlugin(root.Name()) && slices.Contains([]string{"serve", "check", "demo"}, name) {
			question = fmt.Sprintf(": %s runs status and plan in the server's pod; for %s, run the program as vmgroup", of, name)
		}
	}
	return usageError{fmt.Errorf("unknown command %q%s", name, question)}
}

// noArguments refuses arguments of a command that takes none.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no argument, and got %q (%s --help lists the flags)", c.CommandPath(), args[0], c.CommandPath())}
	}
	return nil
}

func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
			if err == nil && len(rest) > 0 {
				err = unknownCommand(c.Root(), rest[0])
			}
			if err != nil {
				return err
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// command returns the root command with all commands. The server writes its log to log.
func command(log *backlog) *cobra.Command {
	root := &cobra.Command{
		Use:   "vmgroup",
		Short: "vSphere VM groups as Kubernetes objects",
		Long: `vmgroup answers Metacontroller's hooks for VmGroup objects, and creates, heals, scales and
removes their virtual machines in vCenter.

Try it without a vCenter:   vmgroup demo
See what it does, and why:  vmgroup status
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
			return unknownCommand(c, args[0])
		},
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return fromEnvironment(c) },
	}
	root.SetFlagErrorFunc(flagError)
	root.SetVersionTemplate("{{.Version}}\n")
	for _, c := range []*cobra.Command{serveCommand(log), planCommand(), adoptCommand(), statusCommand(), checkCommand(), demoCommand()} {
		c.SetUsageFunc(usage)
		root.AddCommand(c)
	}
	root.AddCommand(versionCommand(), answerDoctorCommand())
	root.SetHelpCommand(helpCommand())
	return root
}
