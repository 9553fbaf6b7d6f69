package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/cmd/vmgroup/doctor"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

func (p *plugin) doctorCommand() *cobra.Command {
	output := "table"
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check the whole install: Metacontroller, keys, server, hooks, vCenter",
		Long: `doctor checks everything between kubectl and vCenter, and says what to do about what fails: Metacontroller and its
rights, the CompositeController, Secrets and the ends of certificates, the server's pods, the Service and the
NetworkPolicy, the hooks as Metacontroller calls them, and vCenter as the server sees it.

It uses kubectl with your rights alone, so it also works while no pod runs, and it changes nothing. A line with ? is
a check that your rights don't allow. The exit status is 1 if a check fails (×), and 0 otherwise.`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			p.out, p.notes = c.OutOrStdout(), c.ErrOrStderr()
			return p.doctor(c.Context(), output)
		},
	}
	c.Flags().StringVarP(&output, "output", "o", output, "table or json")
	complete(c, "output", "table", "json")
	return c
}

func (p *plugin) doctor(ctx context.Context, output string) error {
	if output != "table" && output != "json" {
		return usageError{fmt.Errorf("--output %q: must be table or json", output)}
	}
	findings := doctor.Examine(ctx, p.quietly, doctor.Install{Namespace: p.namespace, Name: p.instance, Version: version, Fields: knownFields(), Now: time.Now()})
	if output == "json" {
		if err := writeJSON(p.out, findings); err != nil {
			return err
		}
	} else {
		doctorTable(p.out, findings, width(os.Stdout))
	}
	for _, f := range findings {
		if f.Level == doctor.Fail {
			return exitStatus(1)
		}
	}
	return nil
}

// knownFields are the fields of a VmGroup that this program knows.
func knownFields() []string { return doctor.Fields(reflect.TypeFor[v1alpha1.VmGroup]()) }

// quietly runs kubectl with a time limit, and returns what it says of an error in place of the exit status.
func (p *plugin) quietly(ctx context.Context, input []byte, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if args[0] != "exec" {
		args = append(args, "--request-timeout=10s")
	}
	var said bytes.Buffer
	c := p.kubectl(ctx, args...)
	c.Stdin, c.Stderr = bytes.NewReader(input), &said
	out, err := c.Output()
	if text := strings.TrimSpace(said.String()); err != nil && text != "" && ctx.Err() == nil {
		lines := strings.Split(text, "\n")
		for len(lines) > 1 && strings.HasPrefix(lines[len(lines)-1], "command terminated with exit code") { // kubectl exec's own last line
			lines = lines[:len(lines)-1]
		}
		return nil, errors.New(lines[len(lines)-1])
	}
	if errors.Is(err, exec.ErrNotFound) {
		return nil, errors.New("kubectl isn't in the PATH")
	}
	if err != nil {
		return nil, fmt.Errorf("kubectl %s: %w", strings.Join(args[:min(2, len(args))], " "), err)
	}
	return out, nil
}

var doctorMarks = map[doctor.Level]string{doctor.OK: "√", doctor.Warn: "‼", doctor.Fail: "×", doctor.Unseen: "?"}

// doctorTable writes a line for each check, below its category, and below it the detail and what to do.
func doctorTable(out io.Writer, findings []doctor.Finding, columns int) {
	counts, category := map[doctor.Level]int{}, ""
	say := func(first, indent, text string) {
		for i, line := range fold(plan.Printable(text), columns-len([]rune(indent))) {
			if i > 0 {
				first = indent
			}
			fmt.Fprintln(out, first+line)
		}
	}
	for _, f := range findings {
		if f.Category != category {
			if category != "" {
				fmt.Fprintln(out)
			}
			category = f.Category
			fmt.Fprintf(out, "%s\n%s\n", category, strings.Repeat("-", len(category)))
		}
		counts[f.Level]++
		say(doctorMarks[f.Level]+" ", "  ", f.Check)
		if f.Detail != "" {
			say("    ", "    ", f.Detail)
		}
		if f.Todo != "" {
			say("    → ", "      ", f.Todo)
		}
	}
	fmt.Fprintf(out, "\n%d √, %d ‼, %d ×, %d ?", counts[doctor.OK], counts[doctor.Warn], counts[doctor.Fail], counts[doctor.Unseen])
	if counts[doctor.Unseen] > 0 {
		fmt.Fprint(out, " (can't be checked with your rights, or not now)")
	}
	fmt.Fprintln(out)
}

// answerDoctorCommand is what kubectl vmgroup doctor runs in the server's container.
func answerDoctorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "answer-doctor", Hidden: true, Args: noArguments,
		Short: "Answer kubectl vmgroup doctor, which asks on standard input",
		RunE: func(c *cobra.Command, _ []string) error {
			var q doctor.Question
			if err := json.NewDecoder(io.LimitReader(c.InOrStdin(), 1<<20)).Decode(&q); err != nil {
				return usageError{fmt.Errorf("the question on standard input: %w", err)}
			}
			return writeJSON(c.OutOrStdout(), answerDoctor(c.Context(), &q, os.Getenv))
		},
	}
}

func answerDoctor(ctx context.Context, q *doctor.Question, getenv func(string) string) doctor.Answer {
	a := doctor.Answer{Version: version, Fields: knownFields()}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if q.URL == "" {
		a.Hook = "no CompositeController names a URL"
	} else if code, err := callHook(ctx, q, getenv); err != nil {
		a.Hook = err.Error()
	} else if a.Code = code; code != http.StatusOK {
		a.Hook = fmt.Sprintf("the server answers %d %s", code, http.StatusText(code))
	}
	var r remote
	r.findToRead(getenv)
	text, err := r.get(ctx, url.URL{Path: "/"})
	if err == nil {
		err = json.Unmarshal(text, &a.Status)
	}
	if err != nil {
		a.StatusError = err.Error()
	}
	return a
}

// callHook calls a hook by its URL, as Metacontroller does, but at the listener in the same container: a NetworkPolicy keeps a pod from its
// own Service.
func callHook(ctx context.Context, q *doctor.Question, getenv func(string) string) (code int, err error) {
	at, err := url.Parse(q.URL)
	if err != nil {
		return 0, err
	}
	_, port, err := net.SplitHostPort(getenv("VMGROUP_LISTEN"))
	if err != nil {
		return 0, errors.New("VMGROUP_LISTEN has no port, so the server's address is unknown")
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: at.Hostname()}
	if q.CA == "" && at.Scheme == "https" {
		own, err := os.ReadFile(getenv("VMGROUP_TLS_CERT_FILE"))
		if err != nil {
			return 0, err
		}
		q.CA = string(own)
	}
	if q.CA != "" {
		if cfg.RootCAs = x509.NewCertPool(); !cfg.RootCAs.AppendCertsFromPEM([]byte(q.CA)) {
			return 0, errors.New("what Metacontroller trusts contains no PEM certificate")
		}
	}
	if q.Cert != "" {
		pair, err := tls.X509KeyPair([]byte(q.Cert), []byte(q.Key))
		if err != nil {
			return 0, fmt.Errorf("the certificate that Metacontroller presents: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	if q.Token == "" {
		if file := firstFile(getenv("VMGROUP_TOKEN_FILE")); file != "" {
			text, err := os.ReadFile(file) // #nosec G304 -- the server's own setting
			if err != nil {
				return 0, err
			}
			q.Token = string(text)
		}
	}
	group := &v1alpha1.VmGroup{}
	group.APIVersion, group.Kind, group.Namespace, group.Name = v1alpha1.GroupVersion.String(), v1alpha1.Kind, "default", "doctor"
	body, err := json.Marshal(map[string]any{"parent": group})
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, q.URL, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	if q.Token != "" {
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(q.Token))
	}
	transport := &http.Transport{TLSClientConfig: cfg, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
	}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}
