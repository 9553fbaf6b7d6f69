package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/page"
)

// Question asks a server, in its container, to call its own hook as Metacontroller calls it, and to say what it sees.
type Question struct {
	// URL is that of a hook, as Metacontroller calls it. The server's own listener answers.
	URL string
	// CA, Token, Cert and Key are what Metacontroller trusts and presents. If CA or Token is empty, the container's own files take their place.
	CA, Token, Cert, Key string
}

// Answer is what a server says.
type Answer struct {
	Version string
	// Fields are the fields of a VmGroup that the server knows.
	Fields []string
	// Code is the status of the hook's answer, and Hook what was said or why there is none.
	Code int
	Hook string
	// Status is the status as the server shows it; StatusError says why there is none.
	Status      page.Status
	StatusError string
}

// hooks asks the pods, each with its own words.
func (x *examination) hooks() {
	const check = "the hooks answer as Metacontroller calls them"
	if x.deployment == nil {
		return
	}
	asked, called, starting := false, false, false
	var silent []string
	for i := range x.pods {
		p := &x.pods[i]
		if !p.running() {
			continue
		}
		answer, own, err := x.ask(p)
		if err != nil {
			x.unseen(check+" ("+p.Metadata.Name+")", err)
			continue
		}
		if asked = true; answer.Code == 200 {
			x.ok("%s (%s)%s", check, p.Metadata.Name, own)
		} else {
			x.fail(check+" ("+p.Metadata.Name+")", answer.Hook+own, "Remove the cause that is named here or above; Metacontroller gets the same answer")
		}
		if x.Version != answer.Version {
			x.warn("this program has the server's version", fmt.Sprintf("the server of %s has %s, and this program %s", p.Metadata.Name, answer.Version, x.Version), "Use the program of the server's release")
		}
		x.compareFields(answer.Fields, "the server")
		x.vCenter(p, answer)
		if s := &answer.Status; answer.StatusError == "" {
			if s.Called && !s.Silent {
				called = true
			} else if len(s.Groups) > 0 {
				silent, starting = append(silent, p.Metadata.Name+": "+lastCall(s)), starting || !s.Silent
			}
		}
	}
	if !asked {
		x.compareFields(x.Fields, "this program ("+x.Version+")")
		x.unseen(check, errNoPod)
		return
	}
	const calls = "Metacontroller calls the hooks"
	switch {
	case called:
		x.ok(calls)
	case starting:
		x.warn(calls, list(silent), "Wait a minute, and run this again")
	case len(silent) > 0:
		x.fail(calls, list(silent), "Remove what failed above; if nothing did, see Metacontroller's log. Until it calls, the server does nothing, and the VMs run on: delete none because of this")
	}
}

// lastCall says when Metacontroller last called.
func lastCall(s *page.Status) string {
	if s.LastCall.IsZero() {
		return "not since the server started at " + s.Started.UTC().Format(time.DateTime) + " UTC"
	}
	return "last at " + s.LastCall.UTC().Format(time.DateTime) + " UTC"
}

// ask asks a server. own says which of Metacontroller's keys the user isn't allowed to read.
func (x *examination) ask(p *pod) (answer *Answer, own string, err error) {
	q := Question{}
	if c := x.controller; c != nil && c.Spec.Hooks.Customize != nil {
		q.URL = c.Spec.Hooks.Customize.Webhook.URL // it answers without a group, and changes nothing
		if config := c.config(); config != nil {
			own = x.present(config, &q)
		}
	}
	question, _ := json.Marshal(q) // cannot fail: texts
	text, err := x.kubectl(x.ctx, question, "exec", "-i", p.Metadata.Name, "-c", "vmgroup", "--", "/vmgroup", "answer-doctor")
	if err != nil {
		if strings.Contains(err.Error(), "unknown command") { // the server's own words
			err = errors.New("the server is older than this program, and can't be asked: use the program of the server's release")
		}
		return nil, "", err
	}
	answer = &Answer{}
	return answer, own, json.Unmarshal(text, answer)
}

// present puts what Metacontroller trusts and presents into a question, as far as the user is allowed to read it.
func (x *examination) present(config *endpointConfig, q *Question) (own string) {
	read := func(into *string, ref *keyRef) bool {
		text, err := x.data(ref.Namespace, ref.Name, ref.Key)
		*into = string(text)
		return err == nil
	}
	fine := true
	if ca := config.CABundle; ca != nil && ca.SecretRef != nil {
		fine = read(&q.CA, ca.SecretRef)
	}
	if a := config.Authorization; a != nil && a.SecretRef != nil {
		fine = read(&q.Token, a.SecretRef) && fine
	}
	if c := config.ClientTLS; c != nil {
		fine = read(&q.Cert, &keyRef{Name: c.SecretRef.Name, Namespace: c.SecretRef.Namespace, Key: or(c.CertKey, "tls.crt")}) &&
			read(&q.Key, &keyRef{Name: c.SecretRef.Name, Namespace: c.SecretRef.Namespace, Key: or(c.PrivateKeyKey, "tls.key")}) && fine
	}
	if fine {
		return ""
	}
	return ", with the server's own keys in place of those that can't be read"
}

// vCenter says how the server sees vCenter.
func (x *examination) vCenter(p *pod, answer *Answer) {
	const check = "the server knows vCenter's state"
	v := &answer.Status.VCenter
	switch {
	case answer.StatusError != "":
		x.fail("the server shows its status", p.Metadata.Name+": "+answer.StatusError, "See kubectl -n "+x.Namespace+" logs "+p.Metadata.Name)
	case v.Known:
		x.ok("%s (%s)", check, v.Address)
	default:
		detail, todo := v.Address+": "+v.Message, "See kubectl -n "+x.Namespace+" logs "+p.Metadata.Name
		for _, why := range v.Why {
			detail += " (" + why.Reason + ")"
			if why.Todo != "" {
				todo = why.Todo
			}
		}
		x.fail(check, detail, todo)
	}
}
