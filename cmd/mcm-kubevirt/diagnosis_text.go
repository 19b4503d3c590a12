package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

const (
	// docsURL is the address of the documentation.
	docsURL = "https://github.com/gardener/machine-controller-manager-provider-kubevirt/blob/main/docs/"
	// troubleshootingURL has a row for each cause.
	troubleshootingURL = docsURL + "troubleshooting.md"
)

// textWidth is the maximum number of columns of a line of text.
const textWidth = 120

// print prints the diagnoses in the given format. As text, they
// include the settings that they are based on.
func (d *diagnoses) print(out io.Writer, format, settings string) error {
	if format != outputText {
		return printObject(out, format, d)
	}

	p := &page{out: out, now: time.Now()}

	for i := range d.Machines {
		if i > 0 {
			p.write("")
		}

		p.diagnosis(&d.Machines[i])
	}

	p.section("ASSUMPTIONS")
	p.line("flags", settings)
	p.line("", "if the machine controller runs with other values, pass them to this command too")

	if p.err != nil {
		return fmt.Errorf("print: %w", p.err)
	}

	return nil
}

// page prints text: sections of lines, each with a name and a text that is wrapped if it is long.
type page struct {
	out io.Writer
	now time.Time
	err error
}

func (p *page) diagnosis(d *diagnosis) {
	if d.Machine != nil {
		p.write(fmt.Sprintf("Machine %s in namespace %s", d.Name, d.Machine.Namespace))
	} else {
		p.write("Machine " + d.Name)
	}

	if d.Machine != nil {
		p.machine(d.Machine)
	} else if d.Error == "" {
		p.line("machine", "there is no Machine with this name; the VirtualMachine with this name is diagnosed")
	}

	if d.Control != nil {
		p.control(d.Control, d.Machine.Namespace)
	}

	if d.Provider != nil {
		p.provider(d.Provider)
	}

	switch {
	case d.Error != "":
		p.section("NOT DIAGNOSED")
		p.line("reason", d.Error)
	case d.Cause != nil:
		p.cause(d, d.Cause)
	default:
		p.section("NO CAUSE FOUND")
		p.line("status", d.WaitingFor)
	}

	for _, c := range d.MoreCauses {
		p.cause(d, c)
	}

	p.evidence(d)
}

func (p *page) machine(m *machineState) {
	phase := orNone(m.Phase)
	if m.PhaseSince != nil {
		phase += " for " + p.age(*m.PhaseSince)
	}

	p.line("phase", phase)
	p.line("class", m.Namespace+"/"+m.Class)
	p.line("created", p.ago(m.Created))

	if m.Deleted != nil {
		p.line("deleted", p.ago(*m.Deleted))
	}

	if last := m.LastOperation; last != nil {
		p.line("last operation", fmt.Sprintf("%s %s %s %s", last.Type, last.State, last.Code, p.ago(last.Updated)))
		p.line("", last.Description)
	}

	if ready := m.NodeReady; ready != nil {
		p.line("node", fmt.Sprintf("Ready=%s %s, for %s", ready.Status, ready.Reason, p.age(ready.Since)))
	}
}

func (p *page) provider(s *providerState) {
	p.section(fmt.Sprintf("PROVIDER CLUSTER %s, namespace %s", s.Server, s.Namespace))

	if len(s.Objects) == 0 {
		p.line("", "no object of the machine was found")
	}

	for i := range s.Objects {
		p.object(&s.Objects[i], s.Namespace)
	}

	for _, unread := range s.Unread {
		p.line("not read", unread)
	}
}

func (p *page) object(o *spi.Object, namespace string) {
	kind, name := o.Kind, o.Name
	if o.Namespace != namespace {
		name = o.Namespace + "/" + o.Name
	}

	if o.Role != "" {
		kind = o.Role
	}

	text := fmt.Sprintf("%s, %s old", orNone(o.State), p.age(o.Created))
	if o.Deleted != nil {
		text += fmt.Sprintf(", being deleted for %s", p.age(*o.Deleted))
	}

	p.line(kind, name+": "+text)
}

// control prints the state in the control cluster.
func (p *page) control(s *controlState, namespace string) {
	p.section("CONTROL CLUSTER, namespace " + namespace)

	for i := range s.Controllers {
		p.line("controller", p.controller(&s.Controllers[i]))
	}

	for i := range s.Secrets {
		p.line("Secret", statustext.Printable(s.Secrets[i].text(namespace)))
	}

	if s.LastUpdate == nil {
		p.line("last update", "none: no controller has updated the Machine's status")
	} else {
		p.line("last update", "a controller updated the Machine's status "+p.ago(*s.LastUpdate))
	}
}

func (p *page) controller(s *controllerState) string {
	switch {
	case s.State == running:
		return fmt.Sprintf("%s: running, lease renewed %s ago by %s", s.Name, p.age(*s.Renewed), s.Holder)
	case s.State == stopped && s.Renewed != nil:
		return fmt.Sprintf("%s: NOT RUNNING, lease renewed %s by %s", s.Name, p.ago(*s.Renewed), orNone(s.Holder))
	case s.State == stopped:
		return s.Name + ": NOT RUNNING, its lease has no holder"
	default:
		return s.Name + ": unknown, " + s.Note
	}
}

func (p *page) cause(d *diagnosis, c *causeReport) {
	if d.Result == resultCauseFound {
		p.section("CAUSE " + c.Reason)
	} else {
		p.section("SUSPECTED CAUSE " + c.Reason)
	}

	p.line("message", c.Message)
	p.line("remedy", c.Remedy)
	p.line("machine code", orNone(c.Code)+p.reporting(d, c))

	if c.Since != nil {
		p.line("since", p.ago(*c.Since)+p.gracePeriod(c))
	}

	p.retry(c.Retry)

	if d.WaitingFor != "" {
		p.line("status", d.WaitingFor)
	}

	p.line("see", troubleshootingURL)
	p.line("", "row "+c.Reason)
}

// retry prints when the repair takes effect. The command
// has its own line, so that it can be copied.
func (p *page) retry(hint *retryHint) {
	if hint == nil {
		return
	}

	p.line("retry", hint.When)

	if hint.Command != "" {
		p.write(fmt.Sprintf("  %-*s  %s", nameWidth, "", hint.Command))
	}
}

// reporting describes how the driver reports a cause.
func (p *page) reporting(d *diagnosis, c *causeReport) string {
	switch {
	case c.Code == "":
		return ": the driver is not called"
	case c.Reason == kubevirt.TokenVanished, d.Provider != nil && d.Provider.Stage == spi.StageScheduled:
		return ", not reported by the driver: machine-controller-manager monitors the Node of a scheduled machine instead"
	case d.Result == resultSuspected:
		return ", not yet reported by the driver"
	default:
		return ", reported by the driver"
	}
}

func (p *page) gracePeriod(c *causeReport) string {
	if c.Reported == nil || !c.Reported.After(*c.Since) {
		return ""
	}

	grace := duration.HumanDuration(c.Reported.Sub(*c.Since))

	if c.Reported.After(p.now) {
		return fmt.Sprintf("; the driver reports such a failure after %s, which is in %s", grace, duration.HumanDuration(c.Reported.Sub(p.now)))
	}

	return fmt.Sprintf("; the driver reports such a failure after %s", grace)
}

// evidence prints the reports of components, starting with the evidence for the cause.
func (p *page) evidence(d *diagnosis) {
	if d.Cause == nil && len(d.Evidence) == 0 {
		return
	}

	p.section("EVIDENCE")

	if d.Cause != nil {
		p.basis(d)
	}

	for i := range d.Evidence {
		if d.Cause == nil || !same(d.Cause.Evidence, &d.Evidence[i]) {
			p.observation("also reported", &d.Evidence[i])
		}
	}
}

// basis prints the evidence for the cause.
func (p *page) basis(d *diagnosis) {
	switch {
	case d.Cause.Evidence != nil:
		p.observation("based on", d.Cause.Evidence)
	case isControl(d.Cause.Reason):
		p.line("based on", "the state of the control cluster, see above")
	case d.Cause.Reason == kubevirt.TokenVanished:
		p.line("based on", "the Machine's spec.providerID, which is set when the machine is scheduled on a provider node")
	case d.Provider != nil && d.Provider.Stage == spi.StageAbsent:
		p.line("based on", "the dry run of the machine's creation")
	default:
		p.line("based on", "the response to a request")
	}
}

func isControl(reason string) bool {
	_, found := kubevirt.ControlTokens()[reason]

	return found
}

func same(a, b *spi.Sign) bool {
	return a != nil && a.Object == b.Object && a.Type == b.Type && a.Reason == b.Reason && a.Since.Equal(b.Since)
}

func (p *page) observation(name string, s *spi.Sign) {
	p.line(name, fmt.Sprintf("%s %s/%s", s.Object.Kind, s.Object.Namespace, s.Object.Name))

	text := fmt.Sprintf("%s=%s %s, for %s (since %s)", s.Type, s.Status, s.Reason, p.age(s.Since), stamp(s.Since))
	if s.Last != nil {
		text = fmt.Sprintf("%s %s %s, first %s, last %s ago", s.Type, s.Status, s.Reason, p.ago(s.Since), p.age(*s.Last))
	}

	p.line("", text)

	if s.Message != "" {
		p.line("", s.Message)
	}
}

func (p *page) ago(t time.Time) string {
	return fmt.Sprintf("%s ago (%s)", p.age(t), stamp(t))
}

func stamp(t time.Time) string {
	return t.UTC().Format(time.RFC3339)
}

// age formats an age like kubectl.
func (p *page) age(t time.Time) string {
	return duration.HumanDuration(max(0, p.now.Sub(t)))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}

	return s
}

func (p *page) section(title string) {
	p.write("")
	p.write(title)
}

// nameWidth is the length of the longest name, VirtualMachineInstance.
const nameWidth = 22

func (p *page) line(name, text string) {
	for i, line := range wrapped(text, textWidth-nameWidth-4) {
		if i > 0 {
			name = ""
		}

		p.write(fmt.Sprintf("  %-*s  %s", nameWidth, name, line))
	}
}

func (p *page) write(line string) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.out, strings.TrimRight(line, " "))
	}
}

// wrapped breaks a text into lines of at most width characters,
// between words if possible. A URL stays whole.
func wrapped(text string, width int) []string {
	var (
		lines []string
		line  string
	)

	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}

		if line != "" {
			line += " "
		}

		line += word

		for letters := []rune(line); len(letters) > width && !strings.HasPrefix(line, "https://"); letters = []rune(line) {
			lines, line = append(lines, string(letters[:width])), string(letters[width:])
		}
	}

	return append(lines, line)
}
