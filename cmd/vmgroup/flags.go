package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

const (
	envAnnotation     = "vmgroup.env"
	sectionAnnotation = "vmgroup.section"
	fromVariable      = "vmgroup.from" // the flag's value comes from its variable
)

// env binds a flag to an environment variable, and adds the variable to the flag's help. section binds the other flags to VMGROUP_ and the
// flag's name.
func env(flags *pflag.FlagSet, name, variable string) {
	f := flags.Lookup(name)
	annotate(f, envAnnotation, variable)
	f.Usage += " [$" + variable + "]"
}

// section puts the flags that have no section yet under a title in the help, and binds each of them to a variable.
func section(flags *pflag.FlagSet, title string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Annotations[sectionAnnotation] != nil {
			return
		}
		annotate(f, sectionAnnotation, title)
		if f.Annotations[envAnnotation] == nil {
			env(flags, f.Name, "VMGROUP_"+strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_")))
		}
	})
}

func annotate(f *pflag.Flag, key, value string) {
	if f.Annotations == nil {
		f.Annotations = make(map[string][]string)
	}
	f.Annotations[key] = []string{value}
}

// serviceLink matches variables that Kubernetes sets in every container of a namespace that has a Service vmgroup, vmgroup-east or vc.
var serviceLink = regexp.MustCompile(`^(?:VMGROUP|VC)_(.+_)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_[0-9]+_.+)?)$`)

// fromEnvironment sets flags that are not on the command line from their variables. An empty variable counts as not set. A variable VMGROUP_…
// that no flag of any command has is an error, and so is a variable VC_… whose name resembles one of the server's. (Other variables VC_… may
// belong to other programs.)
func fromEnvironment(c *cobra.Command) error {
	var errs []error
	var known []string
	for _, other := range append(c.Root().Commands(), c) {
		other.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Annotations[envAnnotation]...) })
	}
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		near := strings.HasPrefix(name, "VC_") && levenshtein.Distance(name, nearest(name, known), nil) <= 2
		if (near || strings.HasPrefix(name, "VMGROUP_")) && !slices.Contains(known, name) && !serviceLink.MatchString(name) {
			errs = append(errs, fmt.Errorf("no flag has the environment variable %s: did you mean %s?", name, nearest(name, known)))
		}
	}
	simulator := c.Flags().Lookup("simulator")
	embedded := simulator != nil && simulator.Changed && simulator.Value.String() == "true" && os.Getenv("VC_HOST") != ""
	c.Flags().VisitAll(func(f *pflag.Flag) {
		variable := f.Annotations[envAnnotation]
		if len(variable) == 0 || f.Changed || embedded && strings.HasPrefix(variable[0], "VC_") { // these are settings of another vCenter
			return
		}
		if value := os.Getenv(variable[0]); value != "" {
			annotate(f, fromVariable, variable[0])
			if err := c.Flags().Set(f.Name, value); err != nil {
				errs = append(errs, fmt.Errorf("the environment variable %s: %w", variable[0], badValue(err)))
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		return usageError{err}
	}
	return nil
}

// typed reports whether a flag is on the command line.
func typed(c *cobra.Command, name string) bool {
	f := c.Flags().Lookup(name)
	return f.Changed && f.Annotations[fromVariable] == nil
}

// badValue says what a flag's value must be, instead of the messages of Go's parsers.
func badValue(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	want := map[string]string{"int": "a whole number", "duration": "a duration, such as 30s or 5m", "bool": "true or false"}[invalid.GetFlag().Value.Type()]
	if want == "" {
		return err
	}
	return fmt.Errorf("--%s %q: must be %s", invalid.GetFlag().Name, invalid.GetValue(), want)
}

// nearest returns the name that is most similar to what the user wrote.
func nearest(wrote string, names []string) string {
	return slices.MinFunc(names, func(a, b string) int {
		return levenshtein.Distance(wrote, a, nil) - levenshtein.Distance(wrote, b, nil)
	})
}

// didYouMean returns a question with the nearest name; empty if no name is similar.
func didYouMean(wrote, prefix string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	name := nearest(wrote, names)
	if levenshtein.Distance(wrote, name, nil) > max(2, len(name)/3) {
		begun := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, wrote) })
		if begun < 0 {
			return ""
		}
		name = names[begun]
	}
	return fmt.Sprintf(": did you mean %s%s?", prefix, name)
}

// flagError explains a flag that a command doesn't have, or one with a wrong value.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if question := didYouMean(unknown.GetSpecifiedName(), "--", names); question != "" {
			return usageError{fmt.Errorf("%w%s", err, question)}
		}
	}
	return usageError{fmt.Errorf("%w (%s --help lists the flags)", badValue(err), c.CommandPath())}
}

// usage writes a command's help below its description: examples, and the flags by section, as wide as the terminal. (cobra passes a buffer,
// which has no width.)
func usage(c *cobra.Command) error {
	w := c.OutOrStderr()
	fmt.Fprintf(w, "Usage:\n  %s\n\nExamples:\n%s\n", c.UseLine(), c.Example)
	var titles []string
	sections := make(map[string]*pflag.FlagSet)
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		title := "Other"
		if named := f.Annotations[sectionAnnotation]; named != nil {
			title = named[0]
		}
		if sections[title] == nil {
			titles = append(titles, title)
			sections[title] = pflag.NewFlagSet(title, pflag.ContinueOnError)
			sections[title].SortFlags = false
		}
		sections[title].AddFlag(f)
	})
	for _, title := range titles {
		fmt.Fprintf(w, "\n%s:\n%s", title, sections[title].FlagUsagesWrapped(width(os.Stdout)))
	}
	return nil
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	if b, is := w.(*backlog); is {
		w = b.to
	}
	f, isFile := w.(*os.File)
	return isFile && term.IsTerminal(int(f.Fd()))
}

// size returns the columns and rows of a terminal; zero if w isn't a terminal, or doesn't report its size.
func size(w io.Writer) (columns, rows int) {
	if f, isFile := w.(*os.File); isFile {
		columns, rows, _ = term.GetSize(int(f.Fd()))
	}
	return columns, rows
}

func width(w io.Writer) int {
	columns, _ := size(w)
	return columns
}
