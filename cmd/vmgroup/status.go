package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"codeconnect.vmworld.com/vmgroup/sync/page"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

type statusSettings struct {
	remote    remote
	namespace string
	output    string
	watch     bool
	timeout   time.Duration
	// wait is how long to wait until the group is as its spec says; 0: don't wait. generation is the oldest spec that counts.
	wait       time.Duration
	generation int64
}

func statusCommand() *cobra.Command {
	s := &statusSettings{}
	c := &cobra.Command{
		Use:   "status [[NAMESPACE/]NAME]",
		Short: "Show what the running server does, why, and what to do",
		Long: `status shows the same as the server's page: all groups, first those that wait for an operator; or one group
with what blocks it and what to do about that, its members, its next steps and its recent actions.

Without flags it asks the server in the same container, with that server's own certificate and token files, or
a server on 127.0.0.1:8080. It only reads.

If the server has several replicas, Metacontroller calls one of them for a group; the others know only its VMs.
The exit status is 1 after an error, and 0 otherwise. With --wait, it is 0 once the group is as its spec says (or is
gone, if it is being deleted), and 1 if it waits for an operator, is paused, or takes longer.`,
		Example: `  kubectl -n vmgroup-system exec deploy/vmgroup -- /vmgroup status
  kubectl -n vmgroup-system exec -it deploy/vmgroup -- /vmgroup status default/web -w
  kubectl vmgroup status -n shop web --wait=20m
  vmgroup status -o json --server http://127.0.0.1:8080`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("%s takes one group, and got %q (%s --help lists the flags)", c.CommandPath(), args, c.CommandPath())}
			}
			return s.run(c.Context(), strings.Join(args, ""), c.OutOrStdout())
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVarP(&s.namespace, "namespace", "n", "", "namespace of the group, if its name has none (default: the only one that has a group of that name); without a name, of the groups to show")
	f.StringVarP(&s.output, "output", "o", "table", "table or json")
	f.BoolVarP(&s.watch, "watch", "w", false, "repeat the status every two seconds, until Ctrl-C")
	f.DurationVar(&s.wait, "wait", 0, "wait until the group is as its spec says; --wait=20m: at most 20 minutes")
	f.Lookup("wait").NoOptDefVal = forever.String()
	f.Int64Var(&s.generation, "generation", 0, "with --wait, the oldest metadata.generation of the group that counts (kubectl vmgroup sets it)")
	f.DurationVar(&s.timeout, "timeout", 10*time.Second, "how long to wait for an answer")
	complete(c, "output", "table", "json")
	section(f, "Status")
	s.remote.flags(c, "the server in the same container, or one on 127.0.0.1:8080")
	return c
}

func (s *statusSettings) run(ctx context.Context, group string, out io.Writer) error {
	if s.output != "table" && s.output != "json" {
		return usageError{fmt.Errorf("--output %q: must be table or json", s.output)}
	}
	if s.remote.server == "" {
		s.remote.findToRead(os.Getenv)
	}
	if s.wait < 0 || s.wait > 0 && (group == "" || s.watch) {
		return usageError{errors.New("--wait: name one group, without --watch")}
	}
	target, err := s.target(ctx, group)
	if err != nil {
		return err
	}
	if s.wait > 0 {
		return s.await(ctx, target, out)
	}
	for {
		var text bytes.Buffer
		err := s.show(ctx, target, &text)
		if s.watch && ctx.Err() != nil { // Ctrl-C during a request
			return nil
		}
		if s.watch && isTerminal(out) {
			fmt.Fprint(out, ansiHome, ansiClear)
		}
		if _, failed := out.Write(text.Bytes()); err == nil {
			err = failed
		}
		if err != nil || !s.watch {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(2 * time.Second):
		}
		if s.output == "table" && !isTerminal(out) {
			fmt.Fprintln(out)
		}
	}
}

// target returns the page of a group, or that of all groups.
func (s *statusSettings) target(ctx context.Context, group string) (url.URL, error) {
	if group == "" {
		all := url.URL{Path: "/"}
		if s.namespace != "" {
			all.RawQuery = url.Values{"namespace": {s.namespace}}.Encode()
		}
		return all, nil
	}
	namespace, name, both := strings.Cut(group, "/")
	if !both {
		namespace, name = s.namespace, group
	}
	if both && namespace == "" || name == "" || strings.Contains(name, "/") {
		return url.URL{}, usageError{fmt.Errorf("%q: name a group as NAME or NAMESPACE/NAME, such as default/web", group)}
	}
	if namespace == "" {
		var err error
		if namespace, err = s.namespaceOf(ctx, name); err != nil {
			return url.URL{}, err
		}
	}
	return url.URL{Path: "/ui/groups/" + namespace + "/" + name}, nil
}

// namespaceOf returns the only namespace that has a group of that name; "default" if none is known, or also that one has.
func (s *statusSettings) namespaceOf(ctx context.Context, name string) (string, error) {
	status, err := s.ask(ctx, url.URL{Path: "/", RawQuery: url.Values{"q": {"/" + name}}.Encode()})
	if err != nil {
		return "", err
	}
	var namespaces []string
	for i := range status.Groups {
		if g := &status.Groups[i]; g.Name == name {
			namespaces = append(namespaces, g.Namespace)
		}
	}
	switch {
	case len(namespaces) == 1:
		return namespaces[0], nil
	case len(namespaces) == 0 || slices.Contains(namespaces, metav1.NamespaceDefault):
		return metav1.NamespaceDefault, nil
	}
	slices.Sort(namespaces)
	return "", usageError{fmt.Errorf("several namespaces have a group %s: name one with -n: %s", name, plan.AtMost(namespaces, 10))}
}

// ask reads a page of the server.
func (s *statusSettings) ask(ctx context.Context, target url.URL) (status page.Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	text, err := s.remote.get(ctx, target)
	if err != nil {
		return status, err
	}
	if err := json.Unmarshal(text, &status); err != nil {
		return status, fmt.Errorf("%s is not a vmgroup server of this version: %w", s.remote.server, err)
	}
	return status, nil
}

// show writes the status once.
func (s *statusSettings) show(ctx context.Context, target url.URL, out io.Writer) error {
	status, err := s.ask(ctx, target)
	if err != nil {
		return err
	}
	if s.output == "json" {
		return writeJSON(out, status)
	}
	columns, rows := size(os.Stdout)
	if !s.watch {
		rows = 0
	}
	return statusScreen(out, &status, s.remote.expired, columns, rows)
}

// findToRead finds the server in the same container, and prefers the readers' token, which suffices for status. A server that was started
// without variables listens where serve listens by default. One that requires client certificates takes its own from readers.
func (r *remote) findToRead(getenv func(string) string) {
	if r.tokenFile == "" {
		r.tokenFile = firstFile(getenv("VMGROUP_READER_TOKEN_FILE"))
	}
	if getenv("VMGROUP_CLIENT_CA_FILE") != "" && r.certFile == "" {
		r.certFile, r.keyFile = getenv("VMGROUP_TLS_CERT_FILE"), getenv("VMGROUP_TLS_PRIVATE_KEY_FILE")
	}
	r.findHere(func(name string) string {
		if name == "VMGROUP_LISTEN" {
			return cmp.Or(getenv(name), "127.0.0.1:8080")
		}
		return getenv(name)
	}, nil)
}

// get reads a page of the server as JSON.
func (r *remote) get(ctx context.Context, page url.URL) ([]byte, error) {
	target, token, client, err := r.reach()
	if err != nil {
		return nil, err
	}
	target = target.JoinPath(page.EscapedPath())
	target.RawQuery = page.RawQuery
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	text, code, err := r.send(client, request)
	switch {
	case err != nil:
		return nil, err
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return nil, errors.New("the server wants a token: give a reader's with --server-token-file")
	case code != http.StatusOK:
		var problem struct{ Message string }
		_ = json.Unmarshal(text, &problem)
		if code == http.StatusNotFound && problem.Message != "" {
			return nil, unknownGroup(problem.Message)
		}
		return nil, errors.New(cmp.Or(problem.Message, "the server answered "+http.StatusText(code)))
	}
	return text, nil
}

// unknownGroup is the server's message about a group that it doesn't know.
type unknownGroup string

func (u unknownGroup) Error() string { return string(u) }

// statusTable writes a status as text, as wide as the terminal.
func statusTable(out io.Writer, s *page.Status, columns int, less brevity) {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	defer w.Flush() //nolint:errcheck // into a buffer
	say := func(indent int, format string, args ...any) {
		for line := range strings.SplitSeq(fmt.Sprintf(format, args...), "\n") {
			for _, part := range fold(plan.Printable(line), columns-indent) {
				fmt.Fprintln(w, strings.Repeat(" ", indent)+part)
			}
		}
	}
	todo := func(indent int, text string) {
		if text != "" {
			say(indent, "What to do: %s", text)
		}
	}
	head := "vCenter " + s.VCenter.Address + ": connected"
	if !s.VCenter.Known {
		head = "vCenter " + s.VCenter.Address + ": not known" + since(s.VCenter.Since) + "; until it is, the server does nothing, and the groups are shown as last known"
	}
	if s.Slots != nil {
		head += fmt.Sprintf("; %d of %d slots in use", s.Slots.Running, s.Slots.Most)
		if s.Slots.Waiting > 0 {
			head += fmt.Sprintf(", %d waiting", s.Slots.Waiting)
		}
	}
	say(0, "%s", head)
	for _, why := range s.VCenter.Why {
		say(2, "%s: %s", why.Reason, s.VCenter.Message)
		todo(2, why.Todo)
	}
	for _, h := range s.Hosts {
		named := h.Groups[:min(3, len(h.Groups))]
		whom := strings.Join(named, ", ")
		if left := h.Of - len(named); left > 0 {
			whom += fmt.Sprintf(" and %d more", left)
		}
		say(0, "vCenter can't reach %s on %s%s: %s", plan.Count(h.Members, "member"), cmp.Or(h.Host, "a host that isn't known"), since(h.Since), whom)
		todo(2, "look at the host, and at its storage (docs/troubleshooting.md#vmgrouphostunreachable)")
	}
	if s.Incomplete {
		say(0, "Groups may be missing below: vCenter's inventory is unknown.")
	}
	host, _ := os.Hostname()
	switch {
	case s.Silent:
		say(0, "Metacontroller has not called this replica of the server (%s) since %s: the server does nothing, and the groups are shown as they were at the last call. The VMs continue to run: delete none because of this. Another replica may be called (kubectl vmgroup status finds it), or Metacontroller is down, or can't reach this server: see its log, and the Events of any VmGroup.",
			host, lastCall(s).UTC().Format("2006-01-02 15:04:05 UTC"))
	case !s.Called && len(s.Groups) > 0:
		say(0, "Metacontroller doesn't call this replica of the server (%s) for these groups, so their VMs are as vCenter shows them, and the rest as last known, if at all. If another replica runs, ask that one: kubectl vmgroup status finds it.", host)
	}
	if len(s.Groups) == 0 {
		say(0, "There is no group yet.")
		return
	}
	fmt.Fprintln(w)
	statusGroups(w, s, columns, less)
	for _, f := range faultsOf(s) {
		fmt.Fprintln(w)
		say(0, "%s: %s", f.Reason, plan.AtMost(f.whom, namesAtOnce))
		todo(2, f.Todo)
	}
	for _, g := range s.Groups {
		if g.Detail != nil {
			statusDetail(w, g.Detail, columns, say, todo)
		}
	}
	if len(s.Recent) > 0 && less < withoutRecent {
		fmt.Fprintln(w, "\nRecent actions")
		rows := [][]string{{"ENDED", "ACTION", "GROUP", "VM", "WHY"}}
		for _, a := range s.Recent {
			why := a.Reason
			if a.Result != plan.ResultOK {
				why = fmt.Sprintf("failed: %s (%s)", a.Message, a.Result)
			}
			rows = append(rows, []string{a.Time.UTC().Format("15:04:05"), string(a.Op), a.Group, cmp.Or(a.VM, "-"), why})
		}
		table(w, rows, columns)
	}
}

// statusDetail writes the parts that only the status of one group has.
func statusDetail(w io.Writer, d *page.GroupDetail, columns int, say func(int, string, ...any), todo func(int, string)) {
	for _, b := range d.Blocks {
		fmt.Fprintln(w)
		say(0, "Blocked%s: %s (%s)", of(b.VM), b.Message, b.Reason)
		todo(2, b.Todo)
	}
	for _, n := range d.Notes {
		fmt.Fprintln(w)
		say(0, "Note%s: %s (%s)", of(n.VM), n.Message, n.Reason)
	}
	if len(d.Members) > 0 {
		fmt.Fprintln(w)
		rows := [][]string{{"MEMBER", "VM", "STATE", "POWER", "ADDRESS", "MORE"}}
		for _, m := range d.Members {
			more := m.Message
			if m.Verdict != "" {
				more = strings.TrimPrefix(more+"; "+m.Verdict, "; ")
			}
			address := "-"
			if len(m.IPs) > 0 {
				address = m.IPs[0]
			}
			power := cmp.Or(m.Power, "-")
			if !m.AsOf.IsZero() {
				power, address = "was "+power, "was "+address
			}
			rows = append(rows, []string{m.Name, cmp.Or(m.MoRef, "-"), m.State, power, address, more})
		}
		table(w, rows, columns)
		if d.Of > len(d.Members) {
			fmt.Fprintf(w, "… and %d more\n", d.Of-len(d.Members))
		}
	}
	for _, m := range d.Standby {
		say(0, "standby %s %s: %s", m.Name, m.MoRef, cmp.Or(m.Message, map[bool]string{true: "ready", false: "not ready"}[m.Ready]))
	}
	for _, q := range d.Kept {
		say(0, "in quarantine: %s %s%s", q.Name, q.MoRef, since(q.Since.Time))
	}
	if len(d.Running) > 0 {
		fmt.Fprintln(w, "\nIn progress")
		rows := [][]string{{"ACTION", "VM", "STATE", "WHY"}}
		for _, r := range d.Running {
			state := "running" + since(r.Since)
			if r.State != plan.Running {
				state = "failed, to be tried again"
			}
			why := r.Reason
			if r.Fault != nil {
				why += "; " + r.Fault.Message
			}
			rows = append(rows, []string{string(r.Op), cmp.Or(r.VM, "-"), state, why})
		}
		table(w, rows, columns)
	}
	fmt.Fprintln(w, "\nNext steps")
	if len(d.Next) == 0 {
		say(0, "%s", d.NoNext)
		return
	}
	rows := [][]string{{"ROUND", "ACTION", "VM", "WHY"}}
	for _, n := range d.Next {
		rows = append(rows, []string{fmt.Sprint(n.Round), string(n.Op), cmp.Or(n.VM, "-"), n.Reason})
	}
	table(w, rows, columns)
	if d.More {
		fmt.Fprintln(w, "… and more")
	}
}

func of(vm string) string {
	if vm == "" {
		return ""
	}
	return " (" + vm + ")"
}

// lastCall returns when Metacontroller last called; the start of the server if it never did.
func lastCall(s *page.Status) time.Time {
	if s.LastCall.IsZero() {
		return s.Started
	}
	return s.LastCall
}

// since returns a text with the time since t; empty if t is unknown.
func since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " for " + time.Since(t).Round(time.Second).String()
}
