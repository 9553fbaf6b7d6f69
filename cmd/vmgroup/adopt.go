package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// adoptSettings are those of vmgroup adopt, which connects to vCenter as plan does.
type adoptSettings struct {
	planSettings
	group    string
	patterns []string
}

func adoptCommand() *cobra.Command {
	s := &adoptSettings{}
	c := &cobra.Command{
		Use:   "adopt '/DC0/vm/legacy/web-*'... --group NAMESPACE/NAME",
		Short: "List the entries of spec.adopt for existing VMs",
		Long: `adopt finds VMs by the pattern of their inventory paths, in which * stands for any text without a slash, and
prints spec.replicas and spec.adopt with one entry for each: copy them into the group's manifest. A path without *
that is a folder's stands for all VMs in it. It also says what the VMs have, and which of them the group can't
adopt, and why. It connects to vCenter itself, and changes nothing: vmgroup plan previews what the entries do.

The exit status is 0 if the group can adopt all that were found, and 1 if it can't, or if there are none.`,
		Example: `  kubectl -n vmgroup-system exec deploy/vmgroup -- /vmgroup adopt '/DC0/vm/legacy/web-*' --group shop/web`,
		Args: func(_ *cobra.Command, args []string) error {
			if s.patterns = args; len(args) == 0 {
				return usageError{errors.New("name VMs by the pattern of their inventory paths, such as vmgroup adopt '/DC0/vm/legacy/web-*'")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			s.quiet = !c.Flags().Changed("log-level")
			return s.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&s.group, "group", "default/web", "`namespace/name` of the group that is to adopt them: --adopt-from is for namespaces")
	f.DurationVar(&s.timeout, "timeout", time.Minute, "how long to wait for vCenter")
	section(f, "Adopt")
	s.settings.flags(c)
	return c
}

func (s *adoptSettings) run(ctx context.Context, out, notes io.Writer) error {
	g := &v1alpha1.VmGroup{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind}}
	var is bool
	if g.Namespace, g.Name, is = strings.Cut(s.group, "/"); !is || g.Name == "" || g.Namespace == "" {
		return usageError{fmt.Errorf("--group %q: must be namespace/name, such as shop/web", s.group)}
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	vc, _, done, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	for _, pattern := range s.patterns {
		paths, err := vc.Parts().Inventory.VMsAt(pattern)
		if err != nil {
			return usageError{err}
		}
		if len(paths) == 0 {
			return fmt.Errorf("no VM is at %s (templates aside)", pattern)
		}
		g.Spec.Adopt = append(g.Spec.Adopt, paths...)
	}
	slices.SortFunc(g.Spec.Adopt, byNumbers)
	g.Spec.Adopt = slices.Compact(g.Spec.Adopt)
	if n := len(g.Spec.Adopt); n > v1alpha1.MaxReplicas {
		return fmt.Errorf("%d VMs are there, and a group has at most %d members: use several groups, each with a narrower pattern", n, v1alpha1.MaxReplicas)
	}
	vc.Resolve(ctx, g)
	candidates := vc.State(plan.Ref{Namespace: g.Namespace, Name: g.Name}, plan.Query{Adopt: g.Spec.Adopt, Preview: true}).Candidates
	return writeAdoption(out, notes, candidates)
}

// writeAdoption writes the entries that can be adopted, and notes why the others can't.
func writeAdoption(out, notes io.Writer, candidates []plan.Candidate) error {
	var entries, sizes, faults []string
	with, because := map[string]int{}, map[string][]string{}
	for _, c := range candidates {
		if c.Fault != nil {
			if because[c.Fault.Reason] == nil {
				faults = append(faults, c.Fault.Reason)
			}
			because[c.Fault.Reason] = append(because[c.Fault.Reason], c.Fault.Message)
			continue
		}
		if entries = append(entries, c.Entry); c.VM == nil { // a member of the group
			continue
		}
		size := fmt.Sprintf("%s, %s of memory", plan.Count(int(c.VM.CPU), "CPU"), memoryText(c.VM.MemoryMB))
		if with[size]++; with[size] == 1 {
			sizes = append(sizes, size)
		}
	}
	for _, reason := range faults {
		all := because[reason]
		fmt.Fprintln(notes, "vmgroup:", plan.Printable(fmt.Sprintf("%s can't be adopted (%s): %s", plan.Count(len(all), "VM"), reason, plan.SentencesAtMost(all, 3))))
	}
	if len(entries) > 0 {
		fmt.Fprintf(out, "# %s\n", plan.Count(len(entries), "VM"))
		slices.SortStableFunc(sizes, func(a, b string) int { return cmp.Compare(with[b], with[a]) })
		for _, size := range sizes {
			fmt.Fprintf(out, "#   %d with %s\n", with[size], size)
		}
		text, err := yaml.Marshal(map[string]any{"spec": map[string]any{"replicas": len(entries), "adopt": entries}})
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			fmt.Fprintln(out, plan.Printable(strings.TrimSuffix(line, "\n")))
		}
	}
	if len(faults) > 0 {
		return exitStatus(1)
	}
	return nil
}

// memoryText describes memory in GiB, as the spec counts it, if it is a whole number of them.
func memoryText(mib int64) string {
	if mib%1024 == 0 {
		return fmt.Sprintf("%d GiB", mib/1024)
	}
	return fmt.Sprintf("%d MiB", mib)
}

// byNumbers compares texts so that web-2 comes before web-10.
func byNumbers(a, b string) int {
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x == "" || y == "" {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		n, _ := strconv.ParseUint(x, 10, 64)
		m, _ := strconv.ParseUint(y, 10, 64)
		if c := cmp.Or(cmp.Compare(n, m), cmp.Compare(x, y)); c != 0 {
			return c
		}
		a, b = a[len(x):], b[len(y):]
	}
	return cmp.Compare(a, b)
}

// digits returns the digits at the beginning of a text, up to 18.
func digits(text string) string {
	n := 0
	for n < len(text) && n < 18 && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	return text[:n]
}
