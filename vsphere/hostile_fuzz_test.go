package vsphere

import (
	"bytes"
	"encoding/xml"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/test/thin"
)

// element is the position of an element in an answer, in bytes: of its start tag, its content, and the whole element.
type element struct {
	name                   string
	from, open, close, end int
}

// elements returns the elements of an answer's body, in document order.
func elements(body []byte) (all []element) {
	decoder := xml.NewDecoder(bytes.NewReader(body))
	var stack []int
	for {
		before := int(decoder.InputOffset())
		token, err := decoder.Token()
		if err != nil {
			return all
		}
		switch x := token.(type) {
		case xml.StartElement:
			stack = append(stack, len(all))
			all = append(all, element{name: x.Name.Local, from: before, open: int(decoder.InputOffset())})
		case xml.EndElement:
			e := &all[stack[len(stack)-1]]
			e.close, e.end = before, int(decoder.InputOffset())
			stack = stack[:len(stack)-1]
		}
	}
}

func splice(body []byte, from, to int, with string) []byte {
	return []byte(string(body[:from]) + with + string(body[to:]))
}

// The texts and types with which mends replace others.
var (
	strangeTexts = []string{"", "true", "-1", "99999999999999999999", "group-v3", "vm-1", "\u009b\u202e", "2026-13-45T99:99:99Z", "poweredOn", "success", strings.Repeat("x", 10_000)}
	otherTypes   = []string{"xsd:string", "xsd:int", "xsd:dateTime", "xsd:base64Binary", "ManagedObjectReference", "ArrayOfString", "ArrayOfVirtualDevice",
		"VirtualDisk", "VirtualE1000", "NotAuthenticated", "LocalizedMethodFault", "TaskInfo", "ClusterConfigInfoEx", "NoSuchType", "UpdateSet", "RetrieveResult"}
	strangeBodies = []string{"", "null", "[]", "{}", `{"value":null}`, `{"value":[null]}`, `{"value":{"id":7}}`, `"x"`, "<html><body>Please log in</body></html>",
		`<Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Body/></Envelope>`,
		`<Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Body><Fault><faultcode>x</faultcode></Fault></Body></Envelope>`,
		strings.Repeat("<a>", 5_000), "\xff\xfe\x00"}
)

// mends are the changes that tests make to answers.
var mends = []func(r *recorder, s said, e element, pick int) said{
	func(_ *recorder, s said, e element, _ int) said { // an element is missing
		s.body = splice(s.body, e.from, e.end, "")
		return s
	},
	func(_ *recorder, s said, e element, _ int) said { // appears twice
		s.body = splice(s.body, e.end, e.end, string(s.body[e.from:e.end]))
		return s
	},
	func(_ *recorder, s said, e element, _ int) said { // is empty
		s.body = splice(s.body, e.open, max(e.open, e.close), "")
		return s
	},
	func(_ *recorder, s said, e element, pick int) said { // has another text
		s.body = splice(s.body, e.open, max(e.open, e.close), strangeTexts[pick%len(strangeTexts)])
		return s
	},
	func(_ *recorder, s said, e element, pick int) said { // is of another type
		s.body = splice(s.body, e.from, e.open, fmt.Sprintf(`<%s xmlns:XMLSchema-instance="http://www.w3.org/2001/XMLSchema-instance" XMLSchema-instance:type="%s">`, e.name, otherTypes[pick%len(otherTypes)]))
		return s
	},
	func(_ *recorder, s said, e element, _ int) said { // has no attributes
		s.body = splice(s.body, e.from, e.open, "<"+e.name+">")
		return s
	},
	func(_ *recorder, s said, e element, _ int) said { // the answer ends in the middle of it
		s.body = s.body[:e.open]
		return s
	},
	func(_ *recorder, s said, _ element, pick int) said { // it is something else
		s.body = []byte(strangeBodies[pick%len(strangeBodies)])
		return s
	},
	func(r *recorder, s said, _ element, pick int) said { // it is the answer to another method
		methods := r.methods()
		for _, all := range r.answers[methods[pick%len(methods)]] {
			s.body = all[0].body
		}
		return s
	},
	func(_ *recorder, s said, _ element, pick int) said { // another status, with or without the body
		s.status = []int{http.StatusInternalServerError, http.StatusNoContent, http.StatusUnauthorized, http.StatusFound, http.StatusTemporaryRedirect, http.StatusOK}[pick%6]
		s.header = http.Header{"Location": {[]string{"http://elsewhere.test/sdk", "https://vcenter.test/other", "/sdk", ":"}[pick/6%4]}}
		return s
	},
}

// twisted applies mend to the answers to one method, to the nth or (0) to all.
func twisted(r *recorder, method string, nth, mend, at, pick int) func(string, int, said) said {
	return func(called string, n int, s said) said {
		if called != method || nth > 0 && n != nth-1 {
			return s
		}
		all := elements(s.body)
		e := element{open: len(s.body), close: len(s.body), end: len(s.body)}
		if len(all) > 0 {
			e = all[at%len(all)]
		}
		return mends[mend%len(mends)](r, s, e, pick)
	}
}

func TestAPlayedBackFriendlyVCenterIsAsGoodAsARealOne(t *testing.T) {
	faults := live(t, func(_ string, _ int, s said) said { return s })
	// A few steps make other reads than the recorded ones, because goroutines run in another order. Without recorded answers, all steps fail.
	if steps := len(lifeSteps()); len(faults) > steps/2 {
		t.Errorf("of %d steps %d fail: %v; want at most %d", steps, len(faults), faults, steps/2)
	}
}

// Each method's answer is changed in each of the ways, at places spread over it. FuzzWhatAVCenterAnswers continues from here.
var answersAll = flag.Bool("answers.all", false, "twist each answer in every way, instead of in one")

func TestNoAnswerOfAVCenterCrashesTheServerAndEachFaultIsTyped(t *testing.T) {
	thin.NotShort(t)
	r := recorded(t)
	for m, method := range r.methods() {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			for mend := range mends {
				if *answersAll || mend == m%len(mends) {
					live(t, twisted(r, method, 0, mend, 3+m+mend, m+mend))
				}
			}
		})
	}
}

func FuzzWhatAVCenterAnswers(f *testing.F) {
	for mend := 0; mend < len(mends); mend += 3 {
		if !thin.Out(mend/3, 3) {
			f.Add(uint8(3*mend), uint8(mend%3), uint8(mend), uint16(5*mend), uint8(mend))
		}
	}
	f.Fuzz(func(t *testing.T, method, nth, mend uint8, at uint16, pick uint8) {
		r := recorded(t)
		methods := r.methods()
		live(t, twisted(r, methods[int(method)%len(methods)], int(nth), int(mend), int(at), int(pick)))
	})
}
