package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"codeconnect.vmworld.com/vmgroup/sync/page"
)

// Under the name kubectl-vmgroup, the program is a plugin: kubectl vmgroup runs status and plan in the server's pod, and doctor checks the
// whole install. The plugin runs kubectl for that, with the user's own rights, so it needs neither a client for Kubernetes nor credentials.

// isPlugin reports whether kubectl runs the program as its plugin.
func isPlugin(program string) bool {
	return strings.HasPrefix(filepath.Base(program), "kubectl-vmgroup")
}

type plugin struct {
	namespace, instance, context string
	ofGroups                     string // the namespace of the groups
	in                           io.Reader
	out, notes                   io.Writer
}

func pluginCommand() *cobra.Command {
	p := &plugin{}
	root := &cobra.Command{
		Use:   "kubectl-vmgroup",
		Short: "Ask VmGroup's server, in its pod",
		Long: `kubectl vmgroup runs vmgroup status and vmgroup plan in the pod of VmGroup's server. You need the right to create
pods/exec in the server's namespace. Flags behind the command are those of vmgroup status and vmgroup plan.
kubectl vmgroup doctor checks the whole install, also while no pod runs.`,
		Example: `  kubectl vmgroup doctor
  kubectl vmgroup status
  kubectl vmgroup status default/web -w
  kubectl vmgroup status -n shop web --wait=20m
  kubectl vmgroup plan group.yaml
  kubectl vmgroup --install-namespace vmgroup-east --install vmgroup-east status`,
		SilenceErrors: true, SilenceUsage: true, Version: versionLine(), TraverseChildren: true, // flags before the command belong to the plugin
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl vmgroup"},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	f := root.PersistentFlags()
	f.StringVar(&p.namespace, "install-namespace", "vmgroup-system", "namespace of the server")
	f.StringVar(&p.instance, "install", "vmgroup", "name of the server's Deployment")
	f.StringVar(&p.context, "context", "", "kubectl's context (default: the current one)")
	f.StringVarP(&p.ofGroups, "namespace", "n", "", "namespace of the group (default: that of kubectl's context)")
	root.SetFlagErrorFunc(flagError)
	sub := func(use, short string, run func(context.Context, []string) error) {
		root.AddCommand(&cobra.Command{Use: use, Short: short, DisableFlagParsing: true, RunE: func(c *cobra.Command, args []string) error {
			p.in, p.out, p.notes = c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr()
			return run(c.Context(), args)
		}})
	}
	sub("status [NAMESPACE/NAME]", "Show what the server does, why, and what to do", p.status)
	sub("plan group.yaml...", "Preview the steps for a VmGroup", p.plan)
	root.AddCommand(p.doctorCommand())
	return root
}

// kubectl returns a kubectl command in the server's namespace.
func (p *plugin) kubectl(ctx context.Context, args ...string) *exec.Cmd {
	all := []string{"--namespace", p.namespace}
	if p.context != "" {
		all = append(all, "--context", p.context)
	}
	c := exec.CommandContext(ctx, "kubectl", append(all, args...)...) // #nosec G204 -- the user's own kubectl, without a shell
	c.Stderr = p.notes
	return c
}

// namesGroup matches NAMESPACE/NAME, and neither a flag nor a path.
var namesGroup = regexp.MustCompile(`^[a-z0-9][^/]*/[^/]+$`)

func (p *plugin) status(ctx context.Context, args []string) error {
	var group []string
	namespace, name := namedGroup(args)
	args = slices.Clone(args)
	switch {
	case name < 0 && namespace == "" && p.ofGroups != "":
		args = append(args, "-n", p.ofGroups)
	case name >= 0 && namesGroup.MatchString(args[name]):
		group = args[name : name+1]
	case name >= 0 && namespace != "":
		group = []string{namespace + "/" + args[name]}
	case name >= 0: // of the namespace of kubectl's context, as for kubectl get
		if namespace = p.ofGroups; namespace == "" {
			namespace = p.contextNamespace(ctx)
		}
		args[name] = namespace + "/" + args[name]
		group = args[name : name+1]
	}
	if group != nil && slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--wait") }) {
		args = append(args, p.generation(ctx, group[0])...)
	}
	at, err := p.pod(ctx, group...)
	if err != nil {
		return err
	}
	flags := []string{"exec"}
	if isTerminal(p.out) {
		flags = append(flags, "-it")
	}
	return p.run(p.kubectl(ctx, append(append(flags, at, "--", "/vmgroup", "status"), args...)...), os.Stdin)
}

// generation returns the flag that has the server wait for the newest spec, which Metacontroller may not have sent yet; none if the user can't
// read the group.
func (p *plugin) generation(ctx context.Context, group string) []string {
	namespace, name, _ := strings.Cut(group, "/")
	out, err := p.kubectl(ctx, "get", "vmgroups.vm.codeconnect.vmworld.com", name, "--namespace", namespace, "--output", "jsonpath={.metadata.generation}").Output()
	if n := strings.TrimSpace(string(out)); err == nil && n != "" {
		return []string{"--generation=" + n}
	}
	return nil
}

// namedGroup returns the namespace that the arguments set, and the index of the group's name among them; -1 if there is none.
func namedGroup(args []string) (namespace string, name int) {
	name = -1
	for i := 0; i < len(args); i++ {
		flag, value, has := strings.Cut(args[i], "=")
		switch {
		case flag == "-n" || flag == "--namespace":
			if !has && i+1 < len(args) {
				i++
				value = args[i]
			}
			namespace = value
		case strings.HasPrefix(flag, "-n") && !strings.HasPrefix(flag, "--"): // -nshop
			namespace = strings.TrimPrefix(args[i], "-n")
		case (flag == "-o" || flag == "--output" || flag == "--timeout") && !has: // the next one is its value
			i++
		case !strings.HasPrefix(flag, "-"):
			name = i
		}
	}
	return namespace, name
}

// contextNamespace returns the namespace of kubectl's context.
func (p *plugin) contextNamespace(ctx context.Context) string {
	args := []string{"config", "view", "--minify", "--output", "jsonpath={..namespace}"}
	if p.context != "" {
		args = append(args, "--context", p.context)
	}
	out, err := exec.CommandContext(ctx, "kubectl", args...).Output() // #nosec G204 -- the user gives the context
	if name := strings.TrimSpace(string(out)); err == nil && name != "" {
		return name
	}
	return "default"
}

// pod returns the pod that Metacontroller calls, for the group if one is given. Other pods know only the VMs.
func (p *plugin) pod(ctx context.Context, group ...string) (string, error) {
	pods, err := p.pods(ctx)
	if err != nil || len(pods) == 1 {
		return strings.Join(pods, ""), err
	}
	at := p.called(ctx, pods, group...)
	if at == "" {
		fmt.Fprintf(p.notes, "vmgroup: none of %d pods says that Metacontroller calls it; asking %s\n", len(pods), pods[0])
		return pods[0], nil
	}
	fmt.Fprintf(p.notes, "vmgroup: of %d pods, Metacontroller calls %s\n", len(pods), at)
	return at, nil
}

// pods returns the running pods of the server, as kubectl names them.
func (p *plugin) pods(ctx context.Context) ([]string, error) {
	out, err := p.kubectl(ctx, "get", "pods", "--selector", "app.kubernetes.io/name=vmgroup", "--field-selector", "status.phase=Running",
		"--output", `jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}`).Output()
	if err != nil {
		return nil, fmt.Errorf("kubectl get pods: %w", err)
	}
	var pods []string
	for name := range strings.FieldsSeq(string(out)) {
		if rest, of := strings.CutPrefix(name, p.instance+"-"); of && strings.Count(rest, "-") == 1 { // <ReplicaSet's hash>-<Pod's>
			pods = append(pods, name)
		}
	}
	if len(pods) == 0 {
		return nil, fmt.Errorf("no pod of %s runs in the namespace %s: name them with --install and --install-namespace", p.instance, p.namespace)
	}
	return pods, nil
}

// called returns the first pod that says that Metacontroller calls it.
func (p *plugin) called(ctx context.Context, pods []string, group ...string) string {
	for _, pod := range pods {
		out, err := p.kubectl(ctx, append([]string{"exec", pod, "--", "/vmgroup", "status", "-o", "json"}, group...)...).Output()
		var s page.Status
		if err == nil && json.Unmarshal(out, &s) == nil && s.Called {
			return pod
		}
	}
	return ""
}

// plan sends the files to the server, because its container doesn't have them.
func (p *plugin) plan(ctx context.Context, args []string) error {
	var text bytes.Buffer
	rest := []string{"/vmgroup", "plan", "-f", "-"}
	add := func(file string) error {
		var read []byte
		var err error
		if file == "-" {
			read, err = io.ReadAll(p.in)
		} else {
			read, err = os.ReadFile(file) // #nosec G304 -- the user names it
		}
		text.WriteString("---\n")
		text.Write(read)
		text.WriteString("\n")
		return err
	}
	var err error
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case (arg == "-f" || arg == "--file") && i+1 < len(args):
			i++
			err = errors.Join(err, add(args[i]))
		case strings.HasPrefix(arg, "--file="):
			err = errors.Join(err, add(strings.TrimPrefix(arg, "--file=")))
		case (arg == "-n" || arg == "--namespace" || arg == "-o" || arg == "--output" || arg == "--timeout") && i+1 < len(args):
			i++
			rest = append(rest, arg, args[i])
		case strings.HasPrefix(arg, "-"):
			rest = append(rest, arg)
		default:
			err = errors.Join(err, add(arg))
		}
	}
	if err != nil {
		return usageError{err}
	}
	if text.Len() == 0 {
		return usageError{errors.New("name a file with VmGroup manifests, such as kubectl vmgroup plan group.yaml")}
	}
	at, err := p.pod(ctx)
	if err != nil {
		return err
	}
	return p.run(p.kubectl(ctx, append([]string{"exec", "-i", at, "--"}, rest...)...), &text)
}

// run runs kubectl with the plugin's output, and returns its exit status as the error.
func (p *plugin) run(c *exec.Cmd, in io.Reader) error {
	c.Stdin, c.Stdout = in, p.out
	err := c.Run()
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
		return exitStatus(ended.ExitCode())
	}
	return err
}
