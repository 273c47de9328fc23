"""Times encoding against Hugging Face's tokenizers on one thread, after checking that all ids agree.

    python3 tools/bench/tokenizer_peer.py BUILD/bin/tokenizer_bench TOKENIZER_DIR FILE|chinese [PAIRS]

The documents are the lines of the file. Runs of xrun (tokenizer_bench --serve: a warm process that
encodes all documents on request) and of `encode_batch` on one thread alternate; each is timed by the CPU
time of its thread. Prints MB/s of both and the ratio, median (lowest to highest). "chinese" generates
1 MB of text from the 600 most common words of a frequency list, Zipf-distributed, with punctuation and a
few numbers, because the shared data has no Chinese. Package: pip install tokenizers.
"""
import json
import os
import random
import statistics
import subprocess
import sys
import time

os.environ.update(RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
WORDS = """的 一 是 了 我 不 人 在 他 有 这 个 上 们 来 到 时 大 地 为 子 中 你 说 生 国 年 着 就 那 和 要 她 出 也 得 里 后 自 以 会
家 可 下 而 过 天 去 能 对 小 多 然 于 心 学 么 之 都 好 看 起 发 当 没 成 只 如 事 把 还 用 第 样 道 想 作 种 开 美 总 从 无 情 己 面
最 女 但 现 前 些 所 同 日 手 又 行 意 动 方 期 它 头 经 长 儿 回 位 分 爱 老 因 很 给 名 法 间 斯 知 世 什 两 次 使 身 者 被 高 已 亲
其 进 此 话 常 与 活 正 感 我们 他们 中国 问题 工作 社会 经济 发展 没有 可以 自己 一个 时间 现在 生活 世界 学生 老师 政府 公司 技术
研究 人民 国家 系统 关系 文化 历史 教育 科学 管理 信息 市场 企业 产品 服务 建设 环境 能力 方法 情况 结果 过程 条件 重要 需要 开始
进行 提高 通过 由于 因此 虽然 但是 如果 所以 而且 以及 关于 根据 已经 正在 应该 能够 必须 特别 非常 十分 其他 许多 有些 这样 那么
北京 上海 大学 医院 银行 电话 电脑 网络 手机 汽车 火车 飞机 城市 农村 地区 房子 家庭 朋友 孩子 父母 先生 女士 音乐 电影 新闻 报纸
天气 春天 夏天 秋天 冬天 今天 明天 昨天 早上 晚上 星期 去年 明年 高兴 喜欢 认为 觉得 知道 希望 告诉 帮助 学习 工程 程序 数据 模型
语言 机器 智能 算法 训练 测试 计算 网站 文件 用户 软件 硬件 设计 开发 项目 团队 会议 计划 目标 任务 成绩 比赛 运动 健康 食品 饮料""".split()


def chinese():
    """Generates words with frequency 1 / rank, in sentences of 4 to 20 words and paragraphs of 2 to 8
    sentences."""
    rng = random.Random(4)
    weights = [1 / (rank + 3) for rank in range(len(WORDS))]
    lines, size = [], 0
    while size < 1_000_000:
        line = ""
        for _ in range(rng.randrange(2, 9)):
            words = rng.choices(WORDS, weights, k=rng.randrange(4, 21))
            if rng.random() < 0.2:
                words.insert(rng.randrange(len(words)), str(rng.randrange(1, 3000)))
            if len(words) > 10:
                words.insert(len(words) // 2, "，")
            line += "".join(words) + rng.choice("。。。！？")
        lines.append(line)
        size += len(line.encode())
    return lines


class Ours:
    def __init__(self, bench, folder, texts):
        self.process = subprocess.Popen([bench, "--serve", folder], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.ask({"texts": texts})

    def ask(self, row):
        self.process.stdin.write(json.dumps(row).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def main():
    from tokenizers import Tokenizer
    bench, folder, source = sys.argv[1:4]
    pairs = int(sys.argv[4]) if len(sys.argv) > 4 else 7
    texts = chinese() if source == "chinese" else [
        line for line in open(source, encoding="utf-8").read().split("\n") if line]
    if os.path.exists(folder + "/tokenizer.json"):
        theirs = Tokenizer.from_file(folder + "/tokenizer.json")
    else:
        from transformers import AutoTokenizer
        theirs = AutoTokenizer.from_pretrained(folder).backend_tokenizer
    theirs.encode_special_tokens = True
    ours = Ours(bench, folder, texts)
    wanted = [e.ids for e in theirs.encode_batch(texts, add_special_tokens=False)]
    assert ours.ask({"ids": True})["ids"] == wanted, "ids differ"
    megabytes = sum(len(t.encode()) for t in texts) / 1e6
    rates = {"xrun": [], "tokenizers": [], "ratio": []}
    for _ in range(pairs):
        begin = time.process_time()
        theirs.encode_batch(texts, add_special_tokens=False)
        rates["tokenizers"].append(megabytes / (time.process_time() - begin))
        rates["xrun"].append(megabytes / ours.ask({"ids": False})["seconds"])
        rates["ratio"].append(rates["xrun"][-1] / rates["tokenizers"][-1])
    print(f"{folder} {source}: {megabytes:.2f} MB, {len(texts)} documents, "
          f"{sum(map(len, wanted))} tokens, ids identical, {pairs} pairs")
    for name, unit in (("xrun", " MB/s"), ("tokenizers", " MB/s"), ("ratio", "x")):
        r = rates[name]
        print(f"  {name} {statistics.median(r):.1f} ({min(r):.1f} to {max(r):.1f}){unit}")


if __name__ == "__main__":
    main()
